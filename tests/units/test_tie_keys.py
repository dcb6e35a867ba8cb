"""Tie keys: the values of their definition, equal in every process, and unlike one another."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tests.builders.reference import tie_of
from zonesched.errors import ConfigError
from zonesched.model.text_hash import text_hash
from zonesched.seal.tie_keys import RequestTies, TieSecret

SECRET = TieSecret("ab" * 32)
DIGEST = bytes(32)
KEY = SECRET.request_key("parent-1", "request-1", DIGEST)


def hashes(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array([text_hash(f"{number}f") for number in range(count)], dtype=np.uint64)


def test_a_host_is_known_by_the_first_bytes_of_the_blake2b_hash_of_its_id() -> None:
    assert text_hash("1f") == int.from_bytes(hashlib.blake2b(b"1f", digest_size=8).digest(), "big")


@pytest.mark.parametrize("count", [1, 7, 4_096, 4_097, 10_000])
def test_each_pair_has_the_value_of_the_definition_however_many_are_asked_for(count: int) -> None:
    copies = np.arange(count, dtype=np.int64) % 5
    values = RequestTies(KEY).values(hashes(count), copies)
    for number in {0, count // 2, count - 1}:
        assert int(values[number]) >> 44 == tie_of(KEY, f"{number}f", number % 5)


def test_every_caller_request_and_content_has_a_key_of_its_own() -> None:
    keys = [
        SECRET.request_key("parent-1", "request-1", DIGEST),
        SECRET.request_key("parent-1", "request-2", DIGEST),
        SECRET.request_key("parent-1r", "equest-1", DIGEST),
        SECRET.request_key("parent-2", "request-1", DIGEST),
        SECRET.request_key("parent-1", "request-1", b"\1" * 32),
        TieSecret("cd" * 32).request_key("parent-1", "request-1", DIGEST),
    ]
    assert len(set(keys)) == len(keys)
    assert SECRET.request_key("parent-1", "request-1", DIGEST) == KEY


def test_two_entries_of_one_host_look_no_more_alike_than_entries_of_two_hosts() -> None:
    some = hashes(4_000)
    ties = RequestTies(KEY)
    first, second = (ties.values(some, np.full(4_000, copies)) for copies in (0, 1))
    same_bits = 64 - np.bitwise_count(first ^ second)
    assert 31.5 < float(same_bits.mean()) < 32.5
    assert 0.47 < float((first < second).mean()) < 0.53
    assert abs(float(np.corrcoef(first.astype(float), second.astype(float))[0, 1])) < 0.06


def test_another_request_orders_hosts_in_another_way() -> None:
    some, none = hashes(50), np.zeros(50, dtype=np.int64)
    keys = (KEY, KEY, SECRET.request_key("parent-1", "request-2", DIGEST))
    first, again, other = (np.argsort(RequestTies(key).values(some, none)).tolist() for key in keys)
    assert first == again
    assert first != other


def test_a_secret_of_another_form_is_refused() -> None:
    with pytest.raises(ConfigError, match="64 hex digits"):
        TieSecret("ab" * 31)
