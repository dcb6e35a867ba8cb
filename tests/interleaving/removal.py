"""Removals of locks and conditions, one at a time: to show that schedules find what they are for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

from tests.interleaving import played_store
from zonesched.store import locks

CALLS = (
    "children",
    "which_zones",
    "instances",
    "promises",
    "boots",
    "call",
    "parent",
    "add_to_count",
    "count",
    "tombstones",
    "owned",
    "recovery",
    "group",
    "hosts",
    "aggregates",
    "everything",
)
"""Functions of `zonesched.store.locks`."""


@contextmanager
def without_lock(name: str, site: str) -> Iterator[None]:
    """Leave out the call of `locks.<name>` in the function `site`: "hold._admit" by module and function."""
    whole = getattr(locks, name)

    @wraps(whole)
    def lock(*args: Any, **kwargs: Any) -> None:
        if site_of(sys._getframe(1)) != site:
            whole(*args, **kwargs)

    setattr(locks, name, lock)
    try:
        yield
    finally:
        setattr(locks, name, whole)


@contextmanager
def met_locks(note: Callable[[str, str], Callable[[], None]]) -> Iterator[None]:
    """Call `note(name, site)` before each lock that is taken, and what it returns afterwards."""
    whole = {name: getattr(locks, name) for name in CALLS}

    def noting(name: str) -> Callable[..., None]:
        @wraps(whole[name])
        def lock(*args: Any, **kwargs: Any) -> None:
            done = note(name, site_of(sys._getframe(1)))
            whole[name](*args, **kwargs)
            done()

        return lock

    for name in CALLS:
        setattr(locks, name, noting(name))
    try:
        yield
    finally:
        for name, lock in whole.items():
            setattr(locks, name, lock)


@contextmanager
def rewritten(pattern: str, by: str = "") -> Iterator[None]:
    """Replace what matches in the statements of players."""
    found = re.compile(pattern)

    def rewrite(statement: str) -> str:
        return found.sub(by, statement)

    played_store.rewrites.append(rewrite)
    try:
        yield
    finally:
        played_store.rewrites.remove(rewrite)


def site_of(frame: FrameType) -> str:
    """Name the function of a frame by its module and itself, whichever inner function of it runs."""
    function = frame.f_code.co_qualname.partition(".<locals>")[0]
    return f"{frame.f_globals['__name__'].rpartition('.')[2]}.{function}"
