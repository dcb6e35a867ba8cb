"""Transactions that are run again, as after a conflict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from zonesched.store.store import Store, Transaction


@contextmanager
def meeting_another_transaction(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have each transaction of a store written twice, the first time in vain."""
    write = store.write

    def again(fn: Callable[[Transaction], Any]) -> Any:
        def fails(tx: Transaction) -> None:
            fn(tx)
            raise _Met

        with suppress(_Met):
            write(fails)
        return write(fn)

    with monkeypatch.context() as changed:
        changed.setattr(store, "write", again)
        yield


class _Met(Exception):
    """Another transaction was met."""
