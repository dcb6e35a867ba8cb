"""The order of hosts of equal weight: a hash of (request id, host), the same in every process.

A host's own hash is made once, when it enters the table; a request then only mixes its hash in.

>>> import numpy as np
>>> hosts = np.array([text_hash("host-a"), text_hash("host-b")], dtype=np.uint64)
>>> bool((mix(hosts, text_hash("request-1")) != mix(hosts, text_hash("request-2"))).all())
True
"""

from __future__ import annotations

import hashlib

import numpy as np

from zonesched.model.arrays import Hashes, Ints

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_STRIDE = np.uint64(0x9E3779B97F4A7C15)


def text_hash(text: str) -> int:
    """64 well-mixed bits of an id."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def mix(hashes: Hashes, with_hash: int) -> Hashes:
    """One hash per element of (element, `with_hash`): the finaliser of splitmix64."""
    mixed = hashes ^ np.uint64(with_hash)
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def draw(hashes: Hashes, number: Ints) -> Hashes:
    """The `number`-th pseudo-random value of each hash."""
    return mix(hashes + _STRIDE * (number.astype(np.uint64) + np.uint64(1)), 0)
