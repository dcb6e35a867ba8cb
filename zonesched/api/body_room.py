"""Bound the memory of all bodies together, and parse one large body at a time.

A parsed body takes many times its bytes, and its parser lets no other thread run: two large bodies parsed
side by side would delay all other requests twice as long.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from zonesched.errors import ZoneBusy
from zonesched.model.byte_budget import ByteBudget
from zonesched.model.caller import Caller
from zonesched.model.json_shape import values_at_most
from zonesched.model.sender import Kind, sender_of

SMALL_BYTES = 16 * 1024
"""A body up to this size is not counted: no more of them are in hand than there are threads."""

BYTES_OF_A_VALUE = 256
"""A JSON value or key as objects, before and after validation; measured: 60 to 200."""

MIB = 2**20
TOTAL_BYTES = 256 * MIB
BYTES_OF = {Kind.STRANGER: 0, Kind.PERSON: 64 * MIB, Kind.MACHINE: 192 * MIB}

PARSING_S = 5.0
RETRY_AFTER_S = 1


class BodyRoom:
    """The memory for the bodies of one application; safe to use from all threads."""

    def __init__(self) -> None:
        self._budget = ByteBudget(TOTAL_BYTES, BYTES_OF)
        self._lock = threading.Lock()
        self._parsing = threading.Lock()

    @contextmanager
    def hold(self, caller: Caller, data: bytes) -> Iterator[None]:
        """Keep memory for a body while its request is answered. Raises ZoneBusy where there is too little."""
        if len(data) <= SMALL_BYTES:
            yield
            return
        sender, size = sender_of(caller), 2 * len(data) + BYTES_OF_A_VALUE * values_at_most(data)
        with self._lock:
            is_held = self._budget.take(sender, size)
        if not is_held:
            raise ZoneBusy("This zone has too many large requests in hand.", RETRY_AFTER_S)
        try:
            yield
        finally:
            with self._lock:
                self._budget.give_back(sender, size)

    @contextmanager
    def parse(self, data: bytes) -> Iterator[None]:
        """Wait until no other large body is parsed. Raises ZoneBusy after PARSING_S."""
        if len(data) <= SMALL_BYTES:
            yield
            return
        if not self._parsing.acquire(timeout=PARSING_S):
            raise ZoneBusy("This zone has too many large requests in hand.", RETRY_AFTER_S)
        try:
            yield
        finally:
            self._parsing.release()
