"""Databases of the present schema, copied from one that was migrated once per process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from zonesched.store import schema
from zonesched.store.store import Store


def a_database(path: Path) -> str:
    """The URL of an empty database of the present schema; one that is there already stays as it is."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_template(), path)
    return f"sqlite:///{path}"


@cache
def _template() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="zonesched-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    template = folder / "template.sqlite"
    store = Store.open(f"sqlite:///{template}")
    schema.upgrade(store)
    store.close()
    return template
