"""Trees that many tests begin with: built once in a process, and copied for each test."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import ParamSpec

from tests.builders.tree import Tree

P = ParamSpec("P")


def built_once(build: Callable[P, Tree]) -> Callable[P, Tree]:
    """Have a function build a tree once for its arguments; a caller gets a copy in the folder it names first.

    The zones of a copy have been started again and have asked their children how they are. What a process
    alone knew, such as its metrics and what went over the network, is not in a copy.
    """
    built: dict[str, Tree] = {}

    @wraps(build)
    def copied(*args: P.args, **kwargs: P.kwargs) -> Tree:
        given = signature(build).bind(*args, **kwargs)
        folder, *others = given.args
        key = repr((others, given.kwargs))
        if key not in built:
            built[key] = build(_own_folder(), *others, **given.kwargs)  # type: ignore[arg-type]
            built[key].stop()
        tree = built[key].copy_to(folder)
        # Zones were added below those that were there: what a child says has reached it when it is asked.
        tree.poll(1)
        return tree

    return copied


def _own_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="zonesched-scene-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
