"""Promise P5: an entry opens where it was sealed, for whom and for what it was sealed, in time, or never."""

from __future__ import annotations

import base64
import hmac
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.clock import START, FakeClock
from zonesched.conf import SAMPLE_KEY
from zonesched.errors import BlobRefused, ConfigError, Unavailable
from zonesched.model.build_plan import ChildBlob, EntryPlace
from zonesched.model.place import LocalPlace
from zonesched.seal.entry_form import blob_from_text, blob_size_for, blob_to_text
from zonesched.seal.envelope import Bound, Envelope, OpenedEntry
from zonesched.seal.keyring import Keyring

KEY = bytes(range(32)).hex()
OTHER_KEY = bytes(range(32, 64)).hex()
ZONE = "11111111-1111-4111-8111-111111111111"
HOST = LocalPlace("22222222-2222-4222-8222-222222222222")
CHILD_ID = "33333333-3333-4333-8333-333333333333"
BOUND = Bound(ZONE, caller_id="parent-1", project_id="project-1", request_digest=bytes(32))

SALT_AT, NUMBER_AT, HEADER_BYTES = 9, 41, 45


def an_envelope(
    clock: FakeClock | None = None,
    *,
    keys: tuple[str, ...] = (KEY,),
    ttl_s: float = 60.0,
    blob_size: int = 256,
) -> Envelope:
    return Envelope(Keyring.from_conf(keys), clock or FakeClock(), ttl_s=ttl_s, blob_size=blob_size)


def hosts(count: int, seed: int = 7) -> list[EntryPlace]:
    clock = FakeClock(seed=seed)
    return [LocalPlace(clock.new_uuid()) for _ in range(count)]


def a_child(blob_size: int, fill: int = 0) -> ChildBlob:
    return ChildBlob(CHILD_ID, blob_to_text(bytes([fill]) * blob_size))


def opened(envelope: Envelope, bound: Bound, blob: str) -> OpenedEntry:
    [found] = envelope.open_entries(bound, [blob])
    if isinstance(found, BlobRefused):
        raise found
    return found


def reason(envelope: Envelope, blob: str, bound: Bound = BOUND) -> str:
    with pytest.raises(BlobRefused) as refused:
        opened(envelope, bound, blob)
    return refused.value.reason


class TestRoundTrip:
    def test_what_was_sealed_is_opened_in_order(self) -> None:
        envelope, contents = an_envelope(), hosts(1000)
        opened = envelope.open_entries(BOUND, envelope.seal(BOUND, contents))
        assert [entry.place for entry in opened if isinstance(entry, OpenedEntry)] == contents

    def test_three_layers_each_open_their_own(self) -> None:
        clock = FakeClock()
        leaf, middle, root = (
            an_envelope(clock, keys=(key * 32,), blob_size=size)
            for key, size in (("a1", 256), ("b2", 512), ("c3", 768))
        )
        at_leaf, at_middle, at_root = (replace(BOUND, zone_uuid=zone) for zone in ("leaf", "middle", "root"))

        [from_leaf] = leaf.seal(at_leaf, [HOST])
        [from_middle] = middle.seal(at_middle, [ChildBlob(CHILD_ID, from_leaf)])
        [from_root] = root.seal(at_root, [ChildBlob(ZONE, from_middle)])

        assert opened(root, at_root, from_root).place == ChildBlob(ZONE, from_middle)
        assert opened(middle, at_middle, from_middle).place == ChildBlob(CHILD_ID, from_leaf)
        assert opened(leaf, at_leaf, from_leaf).place == HOST

    @example(child_bytes=bytes(138), texts=["zone", "caller", "project"])  # fills the entry
    @given(child_bytes=st.binary(max_size=138), texts=st.lists(st.text(), min_size=3, max_size=3))
    def test_any_child_blob_and_any_context(self, child_bytes: bytes, texts: list[str]) -> None:
        envelope, bound = an_envelope(), Bound(texts[0], texts[1], texts[2], child_bytes)
        content = ChildBlob(CHILD_ID, blob_to_text(child_bytes))
        [blob] = envelope.seal(bound, [content])
        assert opened(envelope, bound, blob).place == content

    def test_a_lone_surrogate_in_a_context_is_a_context_like_any_other(self) -> None:
        envelope, bound = an_envelope(), replace(BOUND, project_id="\ud800")
        [blob] = envelope.seal(bound, [HOST])
        assert opened(envelope, bound, blob).place == HOST
        assert reason(envelope, blob, replace(BOUND, project_id="\ud801")) == "bad_tag"

    def test_the_answers_of_several_selects_open_in_one_call(self) -> None:
        envelope, contents = an_envelope(), hosts(6)
        blobs = [envelope.seal(BOUND, [content])[0] for content in contents]
        opened = envelope.open_entries(BOUND, blobs)
        assert [entry.place for entry in opened if isinstance(entry, OpenedEntry)] == contents

    def test_a_refused_entry_leaves_its_neighbours_alone(self) -> None:
        envelope = an_envelope()
        first, second = envelope.seal(BOUND, [HOST, HOST])
        cut, damaged, good = envelope.open_entries(BOUND, [first[:-4], first[:-2] + "AA", second])
        assert isinstance(cut, BlobRefused) and isinstance(damaged, BlobRefused)
        assert isinstance(good, OpenedEntry) and good.place == HOST


class TestSizes:
    @pytest.mark.parametrize("blob_size", [256, 257, 300, 512, 65_536])
    def test_every_blob_has_the_configured_length(self, blob_size: int) -> None:
        envelope = an_envelope(blob_size=blob_size)
        contents = [HOST, *hosts(3), a_child(0), a_child(100), a_child(blob_size - 118)]
        blobs = envelope.seal(BOUND, contents) + envelope.seal(replace(BOUND, project_id="p" * 500), [HOST])
        assert {len(blob_from_text(blob)) for blob in blobs} == {blob_size}
        assert len({len(blob) for blob in blobs}) == 1

    @pytest.mark.parametrize("blob_size", [0, 255, 65_537])
    def test_an_envelope_of_another_size_is_not_made(self, blob_size: int) -> None:
        with pytest.raises(ValueError, match="256 to 65536"):
            an_envelope(blob_size=blob_size)

    @pytest.mark.parametrize(
        ("children", "configured", "size"),
        [
            ([], 0, 256),
            ([], 300, 300),
            ([256], 0, 512),
            ([256, 512, 256], 0, 768),
            ([384], 0, 512),
            ([385], 0, 768),
            ([256], 384, 384),
            ([8_064], 0, 8_192),
            ([65_408], 65_536, 65_536),
            ([], 65_536, 65_536),
        ],
    )
    def test_a_zones_size_comes_from_its_children_or_its_configuration(
        self, children: list[int], configured: int, size: int
    ) -> None:
        assert blob_size_for(children, configured) == size

    @pytest.mark.parametrize(
        ("children", "configured"),
        [([256], 383), ([8_065], 0), ([65_409], 65_536), ([], 255), ([], 65_537), ([], -1)],
    )
    def test_a_size_that_does_not_fit_is_refused(self, children: list[int], configured: int) -> None:
        with pytest.raises(ConfigError) as refused:
            blob_size_for(children, configured)
        assert refused.value.field == "build_plan_blob_size"

    @pytest.mark.parametrize(
        ("child", "configured", "needed", "most"), [(256, 383, 384, 383), (8_065, 0, 8_193, 8_192)]
    )
    def test_a_child_that_does_not_fit_is_told_of_with_both_sizes(
        self, child: int, configured: int, needed: int, most: int
    ) -> None:
        with pytest.raises(ConfigError, match=f"build_plan_blob_size = {needed}; here it is at most {most}"):
            blob_size_for([child], configured)

    @pytest.mark.parametrize("configured", [1, 255, 65_537])
    def test_a_configured_size_out_of_bounds_is_told_the_accepted_values(self, configured: int) -> None:
        with pytest.raises(ConfigError, match=f"is {configured}; it must be 0, or from 256 to 65536"):
            blob_size_for([], configured)

    @pytest.mark.parametrize(
        ("child_size", "configured"),
        [(256, 0), (257, 0), (383, 0), (384, 0), (385, 0), (8_064, 0), (65_408, 65_536)],
    )
    def test_a_child_that_fits_can_be_sealed(self, child_size: int, configured: int) -> None:
        envelope = an_envelope(blob_size=blob_size_for([child_size], configured))
        content = a_child(child_size, fill=255)
        [blob] = envelope.seal(BOUND, [content])
        assert opened(envelope, BOUND, blob).place == content

    def test_entries_from_before_a_child_was_added_or_removed_still_open(self) -> None:
        clock = FakeClock()
        small, large = an_envelope(clock), an_envelope(clock, blob_size=512)
        assert opened(large, BOUND, small.seal(BOUND, [HOST])[0]).place == HOST
        assert opened(small, BOUND, large.seal(BOUND, [HOST])[0]).place == HOST

    @pytest.mark.parametrize(
        "content",
        [
            a_child(256 - 117),
            ChildBlob(CHILD_ID, "AB=="),
            ChildBlob(CHILD_ID, "AB"),
            ChildBlob(CHILD_ID, "A+/A"),
            ChildBlob("short", "AAAA"),
            LocalPlace(HOST.host_id[:-1]),
            LocalPlace("h\u00f6st" + HOST.host_id[4:]),
        ],
    )
    def test_what_would_not_come_back_the_same_is_not_sealed(self, content: EntryPlace) -> None:
        with pytest.raises(ValueError):
            an_envelope().seal(BOUND, [content])


class TestText:
    @pytest.mark.parametrize(
        "spelling",
        [
            lambda text: text + "==",
            lambda text: text + "=",
            lambda text: text + "\n",
            lambda text: " " + text,
            lambda text: text[:100] + "\n" + text[100:],
            lambda text: text[:100] + "=" + text[100:],
            lambda text: text[:100] + "====" + text[100:],
            lambda text: text.replace("_", "/").replace("-", "+"),
            lambda text: text[:-1] + chr(ord(text[-1]) + 1),
            lambda text: text[:-1] + "\u0130",
            lambda text: text + "\ud800",
            lambda text: text + "\x00",
            lambda text: "",
            lambda text: "A",
            lambda text: "=" * 342,
            lambda text: text + "AAAA" * 30_000,
        ],
    )
    def test_another_spelling_of_a_blob_is_malformed(self, spelling: Callable[[str], str]) -> None:
        envelope = an_envelope()
        text = next(t for t in envelope.seal(BOUND, hosts(50)) if {"-", "_"} <= set(t) and t[-1] in "AQg")
        assert spelling(text) != text
        assert reason(envelope, spelling(text)) == "malformed"

    @given(st.text(alphabet="AQgwBZaz09-_+/= \n!", max_size=24))
    def test_no_two_texts_are_read_as_the_same_bytes(self, text: str) -> None:
        try:
            blob = blob_from_text(text)
        except ValueError:
            return
        assert blob_to_text(blob) == text

    def test_a_text_longer_than_any_blob_is_not_decoded(self) -> None:
        assert len(blob_from_text(blob_to_text(bytes(65_536)))) == 65_536
        with pytest.raises(ValueError):
            blob_from_text(blob_to_text(bytes(65_537)))

    @given(st.binary(max_size=300))
    def test_all_bytes_have_a_text_that_is_read_back(self, blob: bytes) -> None:
        assert blob_to_text(blob) == base64.urlsafe_b64encode(blob).decode().rstrip("=")
        assert blob_from_text(blob_to_text(blob)) == blob

    @pytest.mark.parametrize("size", [1, 61, 77, 255, 65_537])
    def test_a_blob_of_a_size_that_no_zone_has_is_malformed(self, size: int) -> None:
        assert reason(an_envelope(), blob_to_text(b"\x01" * size)) == "malformed"


class TestRefused:
    @pytest.mark.parametrize(
        "other",
        [
            {"zone_uuid": "44444444-4444-4444-8444-444444444444"},
            {"caller_id": "parent-2"},
            {"project_id": "project-2"},
            {"request_digest": bytes(31) + b"\x01"},
            {"caller_id": "parent-1project-1", "project_id": ""},
            {"caller_id": "parent-", "project_id": "1project-1"},
        ],
    )
    def test_for_another_zone_caller_project_or_request(self, other: dict[str, Any]) -> None:
        envelope = an_envelope()
        [blob] = envelope.seal(BOUND, [HOST])
        assert reason(envelope, blob, replace(BOUND, **other)) == "bad_tag"

    def test_flipped_at_every_bit(self) -> None:
        envelope = an_envelope()
        blob = blob_from_text(envelope.seal(BOUND, [HOST])[0])
        flipped = []
        for bit in range(8 * len(blob)):
            copy = bytearray(blob)
            copy[bit // 8] ^= 1 << bit % 8
            flipped.append(blob_to_text(bytes(copy)))
        opened = envelope.open_entries(BOUND, flipped)
        reasons = [entry.reason if isinstance(entry, BlobRefused) else "" for entry in opened]
        assert reasons == ["malformed"] * 8 + ["unknown_key"] * 64 + ["bad_tag"] * 8 * (256 - 9)

    def test_cut_or_lengthened_at_every_byte(self) -> None:
        envelope = an_envelope(blob_size=400)
        blob = blob_from_text(envelope.seal(BOUND, [HOST])[0])
        cuts = [blob[:end] for end in range(400)] + [blob[start:] for start in range(1, 400)]
        longer = [blob + bytes(more) for more in (1, 16, 256)] + [blob + blob]
        opened = envelope.open_entries(BOUND, [blob_to_text(form) for form in cuts + longer])
        assert all(isinstance(entry, BlobRefused) for entry in opened)

    def test_spliced_of_two_entries_of_one_answer(self) -> None:
        envelope = an_envelope()
        first, second = (blob_from_text(text) for text in envelope.seal(BOUND, hosts(2)))
        for end in range(NUMBER_AT + 4, 256):
            assert reason(envelope, blob_to_text(first[:end] + second[end:])) == "bad_tag"

    @pytest.mark.parametrize(
        "part",
        [
            slice(SALT_AT, NUMBER_AT),
            slice(NUMBER_AT, HEADER_BYTES),
            slice(0, HEADER_BYTES),
            slice(HEADER_BYTES, HEADER_BYTES + 8),
            slice(HEADER_BYTES + 8, HEADER_BYTES + 16),
            slice(HEADER_BYTES, 240),
            slice(240, 256),
        ],
    )
    def test_spliced_of_two_answers(self, part: slice) -> None:
        clock = FakeClock()
        envelope = an_envelope(clock)
        mine = bytearray(blob_from_text(envelope.seal(BOUND, [HOST])[0]))
        clock.advance(1)
        mine[part] = blob_from_text(envelope.seal(BOUND, hosts(2))[1])[part]
        assert reason(envelope, blob_to_text(bytes(mine))) == "bad_tag"

    @pytest.mark.parametrize("bit", range(64))
    def test_another_expiry_written_into_it(self, bit: int) -> None:
        clock = FakeClock()
        envelope = an_envelope(clock)
        blob = bytearray(blob_from_text(envelope.seal(BOUND, [HOST])[0]))
        blob[HEADER_BYTES + 8 + bit // 8] ^= 1 << bit % 8
        clock.advance(61)
        assert reason(envelope, blob_to_text(bytes(blob))) == "bad_tag"

    def test_from_a_zone_with_another_key(self) -> None:
        [blob] = an_envelope(keys=(OTHER_KEY,)).seal(BOUND, [HOST])
        assert reason(an_envelope(), blob) == "unknown_key"

    def test_sealed_under_the_stand_in_for_unknown_keys(self) -> None:
        forged = Keyring(sealing_id=b"8 bytes.", refusal="", keys={b"8 bytes.": bytes(32)})
        [blob] = Envelope(forged, FakeClock(), ttl_s=60.0, blob_size=256).seal(BOUND, [HOST])
        assert reason(an_envelope(), blob) == "unknown_key"
        assert reason(an_envelope(keys=()), blob) == "unknown_key"

    def test_all_refusals_look_alike_from_outside(self) -> None:
        clock = FakeClock()
        envelope = an_envelope(clock)
        [good] = envelope.seal(BOUND, [HOST])
        [foreign] = an_envelope(clock, keys=(OTHER_KEY,)).seal(BOUND, [HOST])
        flipped = good[:-2] + ("AA" if good[-2:] != "AA" else "QQ")
        clock.advance(60)
        refused = envelope.open_entries(BOUND, [good, foreign, flipped, "nonsense"])
        assert [entry.reason for entry in refused if isinstance(entry, BlobRefused)] == [
            "expired",
            "unknown_key",
            "bad_tag",
            "malformed",
        ]
        looks = {(e.message, str(e), e.code, e.field, e.kind) for e in refused if isinstance(e, BlobRefused)}
        assert len(looks) == 1

    @pytest.mark.slow
    def test_an_unknown_key_costs_the_work_of_a_known_one(self) -> None:
        envelope = an_envelope()
        [good] = envelope.seal(BOUND, [HOST])
        [unknown] = an_envelope(keys=(OTHER_KEY,)).seal(BOUND, [HOST])
        bad_tag = good[:-2] + ("AA" if good[-2:] != "AA" else "QQ")

        def seconds_to_refuse(blob: str) -> float:
            started = time.perf_counter()
            envelope.open_entries(BOUND, [blob])
            return time.perf_counter() - started

        samples = [(seconds_to_refuse(unknown), seconds_to_refuse(bad_tag)) for _ in range(2000)]
        unknown_s, bad_tag_s = (min(column) for column in zip(*samples, strict=True))
        assert 0.85 < unknown_s / bad_tag_s < 1.18

    @pytest.mark.slow
    def test_100_000_random_mutations(self) -> None:
        rng, envelope = random.Random(20260401), an_envelope(keys=(KEY, OTHER_KEY))
        other = an_envelope(FakeClock(seed=5), keys=(OTHER_KEY,), blob_size=512)
        contents = [*hosts(32), a_child(64)]
        texts = envelope.seal(BOUND, contents) + envelope.seal(BOUND, contents) + other.seal(BOUND, contents)
        blobs, sealed = [blob_from_text(text) for text in texts], set(texts)
        tried = 0
        while tried < 100_000:
            mutants = [mutated(rng, blobs) for _ in range(1000)]
            mutants = [mutant for mutant in mutants if mutant not in sealed]
            assert all(isinstance(entry, BlobRefused) for entry in envelope.open_entries(BOUND, mutants))
            tried += len(mutants)
        assert all(isinstance(entry, OpenedEntry) for entry in envelope.open_entries(BOUND, texts))


def mutated(rng: random.Random, blobs: list[bytes]) -> str:
    blob = bytearray(rng.choice(blobs))
    donor = rng.choice(blobs)
    at, length = rng.randrange(len(blob)), rng.randrange(1, 40)
    kind = rng.randrange(8)
    if kind == 0:
        for _ in range(rng.randrange(1, 4)):
            blob[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        blob[at : at + length] = donor[at : at + length]
    elif kind == 2:
        del blob[at : at + length]
    elif kind == 3:
        blob[at:at] = rng.randbytes(length)
    elif kind == 4:
        blob[at:] = donor[at:]
    elif kind == 5:
        blob[at : at + length] = rng.randbytes(length)
    elif kind == 6:
        blob[NUMBER_AT:HEADER_BYTES] = rng.randrange(40).to_bytes(4, "big")
    else:
        text = list(blob_to_text(bytes(blob)))
        text[rng.randrange(len(text))] = chr(rng.randrange(1, 0x250))
        return "".join(text)
    return blob_to_text(bytes(blob))


class TestExpiry:
    def test_to_the_moment(self) -> None:
        clock = FakeClock()
        envelope = an_envelope(clock, ttl_s=60.0)
        [blob] = envelope.seal(BOUND, [HOST])
        clock.advance(59.99)
        assert opened(envelope, BOUND, blob).expires_at == START + 60
        clock.advance(0.02)
        assert reason(envelope, blob) == "expired"

    @pytest.mark.parametrize(
        ("asked_s", "kept_s"), [(12.5, 12.5), (60, 60), (61, 60), (1e300, 60), (0, 0), (-5, 0)]
    )
    def test_a_childs_earlier_expiry_is_kept_and_never_a_later_one(
        self, asked_s: float, kept_s: float
    ) -> None:
        clock = FakeClock()
        envelope = an_envelope(clock, ttl_s=60.0)
        [blob] = envelope.seal(BOUND, [HOST], expires_in_s=asked_s)
        clock.advance(max(0.0, kept_s - 0.01))
        if kept_s:
            assert opened(envelope, BOUND, blob).expires_at == START + kept_s
            clock.advance(0.01)
        assert reason(envelope, blob) == "expired"

    def test_no_time_is_said_in_the_clear(self) -> None:
        answers = []
        for days in (0, 400):
            clock = FakeClock()
            clock.advance(days * 86_400)
            answers.append(blob_from_text(an_envelope(clock).seal(BOUND, [HOST])[0]))
        first, later = answers
        # The clocks draw the same salt, so all that is in the clear is the same, and nothing behind it.
        assert first[:HEADER_BYTES] == later[:HEADER_BYTES]
        assert sum(map(int.__ne__, first[HEADER_BYTES:], later[HEADER_BYTES:])) > 13
        assert not any((int(START * 1000) >> 24).to_bytes(width, "big") in first for width in (3, 4, 8))

    def test_is_looked_at_only_after_the_tag(self) -> None:
        clock = FakeClock()
        envelope = an_envelope(clock)
        [blob] = envelope.seal(BOUND, [HOST])
        clock.advance(3600)
        assert reason(envelope, blob) == "expired"
        assert reason(envelope, blob, replace(BOUND, project_id="project-2")) == "bad_tag"

    def test_a_clock_that_is_set_back_lengthens_no_life(self) -> None:
        clock = FakeClock()
        envelope = an_envelope(clock)
        [blob] = envelope.seal(BOUND, [HOST])
        clock.set_to(START - 5)
        assert opened(envelope, BOUND, blob).place == HOST
        clock.set_to(START - 5.01)
        assert reason(envelope, blob) == "expired"


class TestOnce:
    def test_no_salt_and_number_occur_twice(self) -> None:
        envelope = an_envelope()
        blobs = [blob_from_text(b) for _ in range(200) for b in envelope.seal(BOUND, [HOST] * 50)]
        assert len({blob[SALT_AT:NUMBER_AT] + blob[NUMBER_AT:HEADER_BYTES] for blob in blobs}) == 10_000
        assert len({blob[SALT_AT:NUMBER_AT] for blob in blobs}) == 200
        assert len({blob[HEADER_BYTES:] for blob in blobs}) == 10_000

    def test_each_entry_has_its_own_single_use_key_and_keeps_it(self) -> None:
        envelope = an_envelope()
        blobs = envelope.seal(BOUND, [HOST] * 50) + envelope.seal(BOUND, [HOST] * 50)
        keys = [opened(envelope, BOUND, blob).key for blob in blobs]
        assert len(set(keys)) == 100
        assert {len(key) for key in keys} == {72}
        assert [opened(envelope, BOUND, blob).key for blob in blobs] == keys


class TestKeys:
    def test_the_first_seals_and_all_open(self) -> None:
        old, both, new = (
            an_envelope(keys=(KEY,)),
            an_envelope(keys=(OTHER_KEY, KEY)),
            an_envelope(keys=(OTHER_KEY,)),
        )
        [before], [after] = old.seal(BOUND, [HOST]), both.seal(BOUND, [HOST])
        assert opened(both, BOUND, before).place == HOST
        assert opened(new, BOUND, after).place == HOST
        assert reason(old, after) == "unknown_key"
        assert reason(new, before) == "unknown_key"

    def test_no_other_key_is_tried_than_the_one_named(self) -> None:
        envelope = an_envelope(keys=(KEY, OTHER_KEY))
        blob = bytearray(blob_from_text(envelope.seal(BOUND, [HOST])[0]))
        blob[1:SALT_AT] = blob_from_text(an_envelope(keys=(OTHER_KEY,)).seal(BOUND, [HOST])[0])[1:SALT_AT]
        assert reason(envelope, blob_to_text(bytes(blob))) == "bad_tag"

    @pytest.mark.parametrize(
        ("keys", "words"),
        [
            ((), "build_plan_encryption_key is not set"),
            ((SAMPLE_KEY,), "key 1 of build_plan_encryption_key is the published key of the sample"),
            ((SAMPLE_KEY.upper(),), "key 1 of build_plan_encryption_key is the published key of the sample"),
            ((KEY, SAMPLE_KEY), "key 2 of build_plan_encryption_key is the published key of the sample"),
            ((KEY[:-2],), "has 62 hex digits where 64 are needed"),
            ((KEY + "00",), "has 66 hex digits where 64 are needed"),
            ((KEY, "ab"), "key 2 of build_plan_encryption_key has 2 hex digits"),
        ],
    )
    def test_a_zone_without_a_usable_key_neither_seals_nor_opens(
        self, keys: tuple[str, ...], words: str
    ) -> None:
        keyring = Keyring.from_conf(keys)
        assert not keyring.can_seal
        assert words in keyring.refusal
        with pytest.raises(Unavailable) as unavailable:
            an_envelope(keys=keys).seal(BOUND, [HOST])
        assert unavailable.value.code == "zone_has_no_key"
        [blob] = an_envelope().seal(BOUND, [HOST])
        assert reason(an_envelope(keys=keys), blob) == "unknown_key"

    @pytest.mark.parametrize("key", ["", "not hex", "0x" + KEY[2:], KEY[:32] + " " + KEY[33:]])
    def test_what_is_not_hex_is_a_wrong_configuration(self, key: str) -> None:
        with pytest.raises(ConfigError) as refused:
            Keyring.from_conf([key])
        assert refused.value.field == "build_plan_encryption_key"
        assert not key or key not in str(refused.value)

    def test_a_keyring_is_never_printed_with_its_keys(self) -> None:
        keyring = Keyring.from_conf([KEY])
        shown = repr(keyring) + str(keyring) + repr(keyring.opening_subkey(keyring.sealing_id, bytes(32)))
        assert keyring.can_seal and keyring.refusal == ""
        assert repr(bytes.fromhex(KEY)) not in shown and KEY not in shown
        assert repr(keyring.sealing_subkey(bytes(32))) not in shown


GOLDEN_SALT = bytes(range(100, 132))
GOLDEN = (
    "AfnhZVdFiJa8ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1-f4CBgoMAAAABOIjScF5tVdoNIImKPMl1VanyfRYzsO"
    "b2-zrQR2Epdg9hfLfGXtLH-vQ_hgu4jpVw_2Pil2BWfLvLg7l8davHQy4WHvw3PeTvxP1-aDmG9VqAPoJTi8NIiqma"
    "-MVTI_jwS_VUi9CsCm2jPL4mqJvIJw_-v-3CGmIsC7WnrrXtd6t-gn4bvOTIUREe3tS78caDqeni2uU1f75Iuxp9lO"
    "_qgZpUvL5HdBdgSVdxbuFfYwdmDcqT9oz_XeBDKDsXE2ssqHmth4O3AHXGRXo3GACXtb5tig"
)


class GoldenClock(FakeClock):
    def random_bytes(self, count: int) -> bytes:
        assert count == len(GOLDEN_SALT)
        return GOLDEN_SALT


def hkdf_sha256(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 with one block, from the standard library alone."""
    extracted = hmac.digest(salt or bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")[:length]


class TestFormat:
    def test_the_golden_entry_is_sealed_and_opened_as_ever(self) -> None:
        envelope = an_envelope(GoldenClock())
        assert envelope.seal(BOUND, [HOST, a_child(8, fill=9)])[1] == GOLDEN
        assert opened(envelope, BOUND, GOLDEN).place == a_child(8, fill=9)

    def test_the_golden_entry_is_what_the_layout_says(self) -> None:
        blob, key = blob_from_text(GOLDEN), bytes.fromhex(KEY)
        issued_ms = int(START * 1000)
        header = b"\x01" + hkdf_sha256(key, b"", b"zonesched/key-id/v1", 8) + GOLDEN_SALT
        times = issued_ms.to_bytes(8, "big") + (issued_ms + 60_000).to_bytes(8, "big")
        number = (1).to_bytes(4, "big")
        fields = (
            b"zonesched/entry",
            ZONE.encode(),
            b"parent-1",
            b"project-1",
            bytes(32),
            (256).to_bytes(4, "big"),
            header,
            number,
        )
        associated = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
        subkey = hkdf_sha256(key, GOLDEN_SALT, b"zonesched/entry/v1", 32)

        inside = AESGCM(subkey).decrypt(bytes(8) + number, blob[HEADER_BYTES:], associated)

        assert blob[:HEADER_BYTES] == header + number
        content = b"\x02" + CHILD_ID.encode() + b"\0\0\0\x08" + b"\x09" * 8
        assert inside == (times + content).ljust(195, b"\0")
