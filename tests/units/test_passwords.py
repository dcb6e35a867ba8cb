"""Passwords: scrypt for people, SHA-256 for generated secrets, and a cache of verified ones that expires."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.clock import FakeClock
from zonesched.seal.passwords import (
    PERSON,
    ScryptCost,
    VerifiedCache,
    hash_password,
    hash_secret,
    new_secret,
    unknown_user,
    verify,
)

CORRECT = hashlib.sha256(b"correct horse").digest()
WRONG = hashlib.sha256(b"wrong").digest()
CHEAP = ScryptCost(n=16, r=1, p=1)
STORED = hash_password("correct horse", FakeClock(), CHEAP)


class TestPassword:
    @settings(max_examples=50)
    @given(password=st.text(), other=st.text())
    def test_only_the_password_itself_fits(self, password: str, other: str) -> None:
        stored = hash_password(password, FakeClock(), CHEAP)
        assert verify(password, stored)
        assert verify(other, stored) is (other == password)

    @pytest.mark.parametrize(
        "almost", ["", "correct horse ", "Correct horse", "correct hors", "correct horse\0"]
    )
    def test_almost_is_not_enough(self, almost: str) -> None:
        assert not verify(almost, STORED)

    def test_the_same_password_twice_is_stored_differently(self) -> None:
        clock = FakeClock()
        assert hash_password("x", clock, CHEAP) != hash_password("x", clock, CHEAP)

    def test_the_stored_text_is_scrypt_with_its_cost_and_salt(self) -> None:
        name, n, r, p, salt, digest = STORED.split("$")
        expected = hashlib.scrypt(CORRECT, salt=bytes.fromhex(salt), n=16, r=1, p=1, dklen=32)
        assert (name, int(n), int(r), int(p), bytes.fromhex(digest)) == ("scrypt", 16, 1, 1, expected)
        assert len(bytes.fromhex(salt)) == 16

    def test_a_persons_password_costs_16_mib_and_more_than_one_pass(self) -> None:
        stored = hash_password("x", FakeClock(), PERSON)
        assert stored.startswith("scrypt$16384$8$5$")
        assert 128 * PERSON.n * PERSON.r == 16 * 2**20
        assert verify("x", stored)

    def test_an_unknown_user_costs_as_much_and_fits_nothing(self) -> None:
        assert unknown_user(CHEAP).split("$")[:4] == STORED.split("$")[:4]
        assert not verify("", unknown_user(CHEAP))

    @pytest.mark.parametrize("stored", ["", "plain", "md5$00", "sha256", "scrypt$16$1$1$00", STORED + "$00"])
    def test_a_stored_text_of_no_known_form_is_an_error(self, stored: str) -> None:
        with pytest.raises(ValueError):
            verify("x", stored)


class TestSecret:
    def test_a_new_secret_has_256_bits_and_is_new(self) -> None:
        clock = FakeClock()
        secrets = {new_secret(clock) for _ in range(100)}
        assert len(secrets) == 100
        assert {len(secret) for secret in secrets} == {43}

    def test_it_is_kept_as_its_sha256_and_fits(self) -> None:
        secret = new_secret(FakeClock())
        assert hash_secret(secret) == "sha256$" + hashlib.sha256(secret.encode()).hexdigest()
        assert verify(secret, hash_secret(secret))

    def test_another_one_does_not_fit(self) -> None:
        clock = FakeClock()
        stored = hash_secret(new_secret(clock))
        assert not verify(new_secret(clock), stored)
        assert not verify(stored, stored)
        assert not verify("", stored)


class TestVerifiedCache:
    @pytest.fixture
    def scrypts(self, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
        """Passwords that scrypt, which still runs, is called with."""
        seen: list[bytes] = []
        real = hashlib.scrypt

        def counted(password: bytes, **settings: Any) -> bytes:
            seen.append(password)
            return real(password, **settings)

        monkeypatch.setattr(hashlib, "scrypt", counted)
        return seen

    def test_a_verified_password_is_not_hashed_again_for_a_minute(self, scrypts: list[bytes]) -> None:
        clock = FakeClock()
        cache = VerifiedCache(clock)
        assert cache.verify("u", "correct horse", STORED)
        clock.advance(59.5)
        assert cache.verify("u", "correct horse", STORED)
        assert len(scrypts) == 1
        clock.advance(0.5)
        assert cache.verify("u", "correct horse", STORED)
        assert len(scrypts) == 2

    def test_use_does_not_lengthen_it(self, scrypts: list[bytes]) -> None:
        clock = FakeClock()
        cache = VerifiedCache(clock)
        for _ in range(5):
            assert cache.verify("u", "correct horse", STORED)
            clock.advance(20)
        assert len(scrypts) == 2

    def test_setting_the_wall_clock_changes_nothing(self, scrypts: list[bytes]) -> None:
        clock = FakeClock()
        cache = VerifiedCache(clock)
        cache.verify("u", "correct horse", STORED)
        clock.set_to(0)
        clock.advance(61)
        cache.verify("u", "correct horse", STORED)
        assert len(scrypts) == 2

    def test_a_wrong_password_is_hashed_each_time_and_displaces_nothing(self, scrypts: list[bytes]) -> None:
        cache = VerifiedCache(FakeClock())
        assert cache.verify("u", "correct horse", STORED)
        assert [cache.verify("u", "wrong", STORED) for _ in range(2)] == [False, False]
        assert cache.verify("u", "correct horse", STORED)
        assert scrypts == [CORRECT, WRONG, WRONG]

    def test_dropped_means_hashed_again(self, scrypts: list[bytes]) -> None:
        cache = VerifiedCache(FakeClock())
        for user in ("u", "v"):
            cache.verify(user, "correct horse", STORED)
        cache.drop("u")
        cache.drop("nobody")
        for user in ("u", "v"):
            cache.verify(user, "correct horse", STORED)
        assert len(scrypts) == 3

    def test_a_changed_password_counts_at_once_even_without_a_drop(self) -> None:
        cache = VerifiedCache(FakeClock())
        assert cache.verify("u", "correct horse", STORED)
        changed = hash_password("battery staple", FakeClock(seed=1), CHEAP)
        assert not cache.verify("u", "correct horse", changed)
        assert cache.verify("u", "battery staple", changed)

    def test_one_users_password_does_not_let_another_in(self) -> None:
        cache = VerifiedCache(FakeClock())
        assert cache.verify("u", "correct horse", STORED)
        theirs = hash_password("battery staple", FakeClock(seed=1), CHEAP)
        assert not cache.verify("v", "correct horse", theirs)
        assert not cache.verify("ucorrect horse", "", STORED)

    def test_what_it_keeps_is_no_password_and_no_hash_that_another_process_could_make(self) -> None:
        clock = FakeClock()
        caches = [VerifiedCache(clock), VerifiedCache(clock)]
        for cache in caches:
            assert cache.verify("u", "correct horse", STORED)
        assert "correct horse" not in "".join(repr(vars(cache)) for cache in caches)
        assert caches[0]._verified["u"][0] != caches[1]._verified["u"][0]
