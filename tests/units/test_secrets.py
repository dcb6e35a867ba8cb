"""Credentials at rest decrypt in their own place alone; a tenant's host id tells nothing of the host."""

from __future__ import annotations

import hashlib
import hmac
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.clock import FakeClock
from zonesched.conf import SAMPLE_KEY
from zonesched.errors import ConfigError, Unavailable
from zonesched.seal.entry_form import blob_from_text, blob_to_text
from zonesched.seal.secrets import SecretBox, host_id_for_tenant

KEY = bytes(range(32)).hex()
OTHER_KEY = bytes(range(32, 64)).hex()
PLACE = ("zones", "row-1", "password")


def a_box(key: str = KEY, zone_uuid: str = "zone-1", clock: FakeClock | None = None) -> SecretBox:
    return SecretBox([key] if key else [], zone_uuid, clock or FakeClock())


def code(box: SecretBox, place: tuple[str, str, str], encrypted: str) -> str:
    with pytest.raises(Unavailable) as unavailable:
        box.decrypt(*place, encrypted)
    assert "hunter2" not in str(unavailable.value)
    return unavailable.value.code


class TestSecretBox:
    @given(st.text(alphabet=st.characters(), max_size=300))
    def test_what_was_encrypted_is_decrypted(self, text: str) -> None:
        assert a_box().decrypt(*PLACE, a_box().encrypt(*PLACE, text)) == text

    def test_nothing_of_the_text_or_the_key_shows(self) -> None:
        box = a_box()
        encrypted = box.encrypt(*PLACE, "hunter2")
        assert b"hunter2" not in blob_from_text(encrypted)
        assert set(encrypted) <= set(string.ascii_letters + string.digits + "-_")
        assert KEY not in repr(box) and "hunter2" not in repr(box)

    def test_the_same_text_twice_does_not_look_the_same(self) -> None:
        box = a_box()
        assert box.encrypt(*PLACE, "hunter2") != box.encrypt(*PLACE, "hunter2")

    @pytest.mark.parametrize(
        "other",
        [
            ("users", "row-1", "password"),
            ("zones", "row-2", "password"),
            ("zones", "row-1", "username"),
            ("zonesrow-1", "", "password"),
            ("zone", "srow-1", "password"),
        ],
    )
    def test_moved_to_another_place_it_does_not_decrypt(self, other: tuple[str, str, str]) -> None:
        assert code(a_box(), other, a_box().encrypt(*PLACE, "hunter2")) == "secret_damaged"

    def test_swapped_rows_do_not_decrypt(self) -> None:
        box, rows = a_box(), ("row-1", "row-2")
        kept = {row: box.encrypt("zones", row, "password", f"hunter2-{row}") for row in rows}
        kept["row-1"], kept["row-2"] = kept["row-2"], kept["row-1"]
        assert [code(box, ("zones", row, "password"), kept[row]) for row in rows] == ["secret_damaged"] * 2

    def test_moved_to_another_zone_with_the_same_key_it_does_not_decrypt(self) -> None:
        assert code(a_box(zone_uuid="zone-2"), PLACE, a_box().encrypt(*PLACE, "hunter2")) == "secret_damaged"

    def test_changed_at_any_bit_or_cut_at_any_byte_it_does_not_decrypt(self) -> None:
        box = a_box()
        sealed = blob_from_text(box.encrypt(*PLACE, "hunter2"))
        for bit in range(8 * len(sealed)):
            flipped = bytearray(sealed)
            flipped[bit // 8] ^= 1 << bit % 8
            expected = "secret_of_other_key" if 1 <= bit // 8 <= 8 else "secret_damaged"
            assert code(box, PLACE, blob_to_text(bytes(flipped))) == expected
        for end in range(len(sealed)):
            assert code(box, PLACE, blob_to_text(sealed[:end])) == "secret_damaged"

    @pytest.mark.parametrize("encrypted", ["", "hunter2", "not base64!", "\u00e9", "A" * 100])
    def test_what_never_was_encrypted_does_not_decrypt(self, encrypted: str) -> None:
        assert code(a_box(), PLACE, encrypted) == "secret_damaged"

    def test_after_the_key_was_changed_it_says_that(self) -> None:
        assert code(a_box(OTHER_KEY), PLACE, a_box().encrypt(*PLACE, "hunter2")) == "secret_of_other_key"

    def test_of_several_keys_the_first_encrypts_and_all_decrypt(self) -> None:
        box = SecretBox([OTHER_KEY, KEY], "zone-1", FakeClock())
        old, new = a_box().encrypt(*PLACE, "hunter2"), box.encrypt(*PLACE, "hunter2")
        assert [box.decrypt(*PLACE, old), box.decrypt(*PLACE, new)] == ["hunter2"] * 2
        assert a_box(OTHER_KEY).decrypt(*PLACE, new) == "hunter2"
        assert (box.is_current(old), box.is_current(new)) == (False, True)
        assert not box.is_current("hunter2") and not a_box("").is_current(new)

    def test_without_a_key_it_can_do_neither(self) -> None:
        box = a_box("")
        assert not box.can_encrypt and a_box().can_encrypt
        assert code(box, PLACE, a_box().encrypt(*PLACE, "hunter2")) == "zone_has_no_secret_key"
        with pytest.raises(Unavailable) as unavailable:
            box.encrypt(*PLACE, "hunter2")
        assert unavailable.value.code == "zone_has_no_secret_key"

    @pytest.mark.parametrize("key", ["short", SAMPLE_KEY, KEY + "00", KEY[:-1] + " ", KEY[:-1] + "g"])
    def test_a_key_of_another_form_is_a_wrong_configuration(self, key: str) -> None:
        with pytest.raises(ConfigError) as refused:
            a_box(key)
        assert refused.value.field == "secret_encryption_key"
        assert key not in str(refused.value)

    def test_the_golden_secret_decrypts_as_ever(self) -> None:
        golden = "AX3scLuQYF3QzQcs2L5vn2KsTAnCBP0cS0HSDU9UUvC3AnfJFQiwgVjV_q4"
        assert a_box().encrypt(*PLACE, "hunter2") == golden
        assert a_box().decrypt(*PLACE, golden) == "hunter2"


class TestHostIdForTenant:
    def test_it_is_56_hex_digits_and_stays_the_same(self) -> None:
        host_id = host_id_for_tenant(KEY, "project-1", "host-1")
        assert len(host_id) == 56
        assert set(host_id) <= set("0123456789abcdef")
        assert host_id == host_id_for_tenant(KEY, "project-1", "host-1")

    def test_it_is_the_hmac_of_project_and_host(self) -> None:
        message = b"\0\0\0\x11zonesched/host-id" + b"\0\0\0\x01p" + b"\0\0\0\x01h"
        expected = hmac.new(bytes.fromhex(KEY), message, hashlib.sha224).hexdigest()
        assert host_id_for_tenant(KEY, "p", "h") == expected

    def test_it_differs_by_secret_project_and_host(self) -> None:
        cases = [
            (KEY, "p", "h"),
            (OTHER_KEY, "p", "h"),
            (KEY, "q", "h"),
            (KEY, "p", "g"),
            (KEY, "ph", ""),
            (KEY, "", "ph"),
        ]
        assert len({host_id_for_tenant(*case) for case in cases}) == len(cases)

    @pytest.mark.parametrize("secret", ["", "ab", KEY[:-2], KEY + "00", "x" * 64])
    def test_a_secret_of_another_form_is_refused(self, secret: str) -> None:
        with pytest.raises(ConfigError):
            host_id_for_tenant(secret, "p", "h")
