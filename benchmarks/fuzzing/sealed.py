"""Targets of sealed entries: blobs as they come from outside, and the packed content inside them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from benchmarks.fuzzing import hostile
from benchmarks.fuzzing.target import Target, Work, stateless
from tests.builders.clock import FakeClock
from zonesched.errors import BlobRefused
from zonesched.model.build_plan import ChildBlob, EntryPlace
from zonesched.model.place import LocalPlace
from zonesched.seal.entry_form import blob_from_text, blob_to_text, pack_content, unpack_content
from zonesched.seal.envelope import Bound, Envelope
from zonesched.seal.keyring import Keyring

HOST = LocalPlace("11111111-1111-4111-8111-111111111111")
CHILD = ChildBlob("22222222-2222-4222-8222-222222222222", blob_to_text(bytes(range(256))))
BOUND = Bound("zone", "caller", "project-1", bytes(32))

_envelope = Envelope(
    Keyring.from_conf([bytes(range(32)).hex(), bytes(range(32, 64)).hex()]),
    FakeClock(),
    ttl_s=60.0,
    blob_size=512,
)
_blobs = _envelope.seal(BOUND, [HOST, CHILD])


@dataclass(frozen=True)
class Opening:
    """Blobs that are opened together in one context."""

    bound: Bound
    blobs: tuple[str, ...]


@st.composite
def _texts(draw: DrawFn) -> str:
    """A true blob, changed in its bytes or in its text; or any text."""
    blob = draw(st.sampled_from(_blobs))
    match draw(st.sampled_from(("true", "bytes", "text", "any"))):
        case "true":
            return blob
        case "bytes":
            raw = blob_from_text(blob)
            at = draw(st.integers(0, len(raw)))
            to = draw(st.integers(at, min(len(raw), at + 40)))
            return blob_to_text(raw[:at] + draw(st.binary(max_size=40)) + raw[to:])
        case "text":
            at = draw(st.integers(0, len(blob)))
            return (
                blob[:at] + draw(st.sampled_from(("=", "\n", "+", "é", "\ud800", "A", ""))) + blob[at + 1 :]
            )
        case _:
            return draw(hostile.words)


_bounds = st.just(BOUND) | st.builds(
    Bound,
    st.sampled_from(("zone", "other")),
    st.sampled_from(("caller", "other")) | hostile.words,
    st.sampled_from(("project-1", "project-")) | hostile.words,
    st.just(bytes(32)) | st.binary(min_size=32, max_size=32),
)
openings = st.builds(Opening, _bounds, st.lists(_texts(), min_size=1, max_size=8).map(tuple))


def check_opening(given: Opening) -> Work:
    """Check that a sealed entry opens in its own context alone."""
    true = dict(zip(_blobs, (HOST, CHILD), strict=True))
    for text, opened in zip(given.blobs, _envelope.open_entries(given.bound, given.blobs), strict=True):
        if isinstance(opened, BlobRefused):
            assert text not in true or given.bound != BOUND, "a true entry is refused"
        else:
            assert given.bound == BOUND and opened.place == true[text], "a forged entry opens"
    return Work(sum(len(blob) for blob in given.blobs))


_ids = st.just(HOST.host_id) | hostile.words
_places = st.builds(LocalPlace, _ids) | st.builds(ChildBlob, _ids, st.sampled_from(_blobs) | hostile.words)
contents = st.tuples(_places, st.integers(0, 1024)) | st.binary(min_size=1, max_size=600)


def check_content(given: tuple[EntryPlace, int] | bytes) -> Work:
    """Check that packed values unpack to themselves, and other bytes raise ValueError."""
    try:
        if isinstance(given, bytes):
            unpack_content(given)
            return Work(len(given))
        place, size = given
        assert unpack_content(pack_content(place, size)) == place
    except ValueError:
        pass
    return Work(1024)


TARGETS = (
    Target("blobs", "sealed entries that are opened", lambda: openings, stateless(check_opening)),
    Target(
        "entries",
        "the packed content of an entry, and what is packed",
        lambda: contents,
        stateless(check_content),
    ),
)
