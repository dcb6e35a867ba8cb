"""Index of row numbers by id: a hash table in arrays that looks up many ids at once.

A dictionary would fetch an object from scattered memory for each id; for a thousand ids among a hundred
thousand that takes longer than all other work on them.

>>> index = IdIndex()
>>> index.add(["1f", "2f"], np.array([7, 3]))
>>> index.rows(["2f", "9f", "1f"]).tolist()
[3, -1, 7]
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from zonesched.model.arrays import Bools, Hashes, Ints

NOWHERE = -1

_EMPTY, _GIVEN_BACK = -1, -2
_FIRST_BITS = 7
_ID_CHARACTERS = 36
_PAD = "\0" * 4
"""Bytes that fill the text of a uuid up to a whole number of 64-bit numbers."""
_FACTOR_NUMBERS = (
    0x9E3779B97F4A7C15,
    0xBF58476D1CE4E5B9,
    0x94D049BB133111EB,
    0xD6E8FEB86659FD93,
    0xC2B2AE3D27D4EB4F,
)
_NUMBERS = len(_FACTOR_NUMBERS)
_FACTORS: Hashes = np.array(_FACTOR_NUMBERS, dtype=np.uint64)
_KEY = struct.Struct(f"={_NUMBERS}Q")
_64_BITS = (1 << 64) - 1


class IdIndex:
    """Rows by id, with linear probing: from the slot of the id's hash to the first empty slot."""

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._slots: npt.NDArray[np.int32] = np.full(1 << _FIRST_BITS, _EMPTY, dtype=np.int32)
        self._taken = 0
        self._count = 0
        self._keys: Hashes = np.zeros((0, _NUMBERS), dtype=np.uint64)

    def __len__(self) -> int:
        return self._count

    def rows(self, ids: Sequence[str]) -> Ints:
        """Return the row of each id, NOWHERE for an unknown id."""
        return self._find(_keys(ids))[0]

    def row(self, host_id: str) -> int:
        """Return the row of one id, as `rows` does; many times as fast."""
        key = _key(host_id)
        slots = self._slots
        slot = self._first_slot(key)
        while (row := int(slots[slot])) != _EMPTY:
            if row >= 0 and self._keys[row].tobytes() == key:
                return row
            slot = (slot + 1) & (len(slots) - 1)
        return NOWHERE

    def add(self, ids: Sequence[str], rows: Ints) -> None:
        """Add unknown ids, each once, with their rows."""
        keys = _keys(ids)
        if len(rows) and int(rows.max()) >= len(self._keys):
            more = np.zeros((int(rows.max()) + 1 + len(self._keys) // 2, _NUMBERS), dtype=np.uint64)
            more[: len(self._keys)] = self._keys
            self._keys = more
        self._keys[rows] = keys
        self._count += len(rows)
        if 2 * (self._taken + len(rows)) > len(self._slots):
            here = self._slots[self._slots >= 0].astype(np.int64)
            self._bits = max(_FIRST_BITS, int(4 * self._count).bit_length())
            self._slots = np.full(1 << self._bits, _EMPTY, dtype=np.int32)
            self._taken = 0
            self._put(here)
        self._put(rows)

    def remove(self, host_id: str) -> int:
        """Remove one id and return its row, NOWHERE for an unknown id."""
        rows, slots = self._find(_keys([host_id]))
        if rows[0] != NOWHERE:
            self._slots[slots[0]] = _GIVEN_BACK
            self._count -= 1
        return int(rows[0])

    def _find(self, keys: Hashes) -> tuple[Ints, Ints]:
        """Return the row of each key, and the slot that holds it."""
        found = np.full(len(keys), NOWHERE, dtype=np.int64)
        slots = self._first_slots(keys)
        looking = np.arange(len(keys))
        while len(looking):
            rows = self._slots[slots[looking]]
            hit: Bools = rows >= 0
            hit[hit] = (self._keys[rows[hit]] == keys[looking[hit]]).all(axis=1)
            found[looking[hit]] = rows[hit]
            looking = looking[~hit & (rows != _EMPTY)]
            slots[looking] = (slots[looking] + 1) & (len(self._slots) - 1)
        return found, slots

    def _put(self, rows: Ints) -> None:
        slots = self._first_slots(self._keys[rows])
        self._taken += len(rows)
        while len(rows):
            free = self._slots[slots] == _EMPTY
            self._slots[slots[free]] = rows[free]
            # Of several rows written to one slot, one remains there.
            left = self._slots[slots] != rows
            rows, slots = rows[left], (slots[left] + 1) & (len(self._slots) - 1)

    def _first_slot(self, key: bytes) -> int:
        """Return what `_first_slots` returns for one key."""
        a, b, c, d, e = _FACTOR_NUMBERS
        first, second, third, fourth, fifth = _KEY.unpack(key)
        mixed: int = (first * a + second * b + third * c + fourth * d + fifth * e) & _64_BITS
        mixed = (mixed ^ mixed >> 32) * a & _64_BITS
        return mixed >> (64 - self._bits)

    def _first_slots(self, keys: Hashes) -> Ints:
        mixed = (keys * _FACTORS).sum(axis=1, dtype=np.uint64)
        mixed ^= mixed >> np.uint64(32)
        mixed *= _FACTORS[0]
        slots: Ints = (mixed >> np.uint64(64 - self._bits)).astype(np.int64)
        return slots


def _keys(ids: Sequence[str]) -> Hashes:
    """Return 40 bytes of each id as five numbers: the text itself if it is as long as a uuid, else a hash."""
    if set(map(len, ids)) != {_ID_CHARACTERS} or not "".join(ids).isascii():
        ids = [text if _is_plain(text) else _hash(text) for text in ids]
    padded = _PAD.join([*ids, ""])
    return np.frombuffer(padded.encode(), dtype=np.uint64).reshape(-1, _NUMBERS)


def _key(text: str) -> bytes:
    """Return the 40 bytes of one id."""
    return ((text if _is_plain(text) else _hash(text)) + _PAD).encode()


def _is_plain(text: str) -> bool:
    return len(text) == _ID_CHARACTERS and text.isascii()


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=_ID_CHARACTERS // 2).hexdigest()
