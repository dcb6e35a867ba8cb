"""Targets of short texts: children's URLs, cursors, and JSON whose shape is measured before it is parsed."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import orjson
from hypothesis import strategies as st

from benchmarks.fuzzing import hostile
from benchmarks.fuzzing.target import Target, Work, stateless
from zonesched.model.json_shape import Verdict, judge, shape_of
from zonesched.seal.cursors import Cursor, CursorBox
from zonesched.zones.address import AddressGuard, AddressRefused, parse_api_url, split_call_url
from zonesched.zones.networks import Networks

MAX_DEPTH = 32

_HOSTS = (
    "zone.example",
    "127.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "0x7f.1",
    "2130706433",
    "169.254.169.254",
)
_PIECES = (
    "https",
    "http",
    "HTTP",
    "ftp",
    "://",
    ":",
    "/",
    "//",
    "..",
    ".",
    "@",
    "?",
    "#",
    "%2f",
    "\\",
    "[",
    "]",
)
_urls = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}{path}",
    st.sampled_from(("https", "http", "HTTPS", "file", "")),
    st.sampled_from(_HOSTS) | st.text(max_size=12),
    st.sampled_from(("", ":0", ":443", ":8774", ":65536", ":٣", ":-1")),
    st.sampled_from(("", "/", "/v2.1", "/v2.1/", "/a/../b", "/%2e", "/a b", "/é", "?a", "#a"))
    | hostile.words,
)
urls = _urls | st.lists(st.sampled_from((*_PIECES, *_HOSTS)) | st.text(max_size=3), max_size=12).map("".join)

_guard = AddressGuard(Networks.from_words(["public", "private"]))


def check_url(given: tuple[str, str]) -> Work:
    """A URL that is accepted reads the same again, names the same host to another parser, and is admitted."""
    text, resolved = given
    try:
        url = parse_api_url(text)
    except AddressRefused:
        url = None
    if url is not None:
        assert parse_api_url(url.text) == url, "the canonical spelling reads as another URL"
        endpoint, path = split_call_url(url.text + "/zones/info?a=b")
        assert (endpoint, path) == (url.endpoint, url.path + "/zones/info?a=b")
        other = urlsplit(url.text)
        assert other.hostname == url.endpoint.host and not other.username, "another parser reads another host"
        try:
            admitted = _guard.admit(url.endpoint, [resolved])
        except AddressRefused:
            admitted = []
        assert not any(address.startswith(("127.", "169.254.", "::1")) for address in admitted)
    return Work(len(text.encode("utf-8", "surrogatepass")))


_box = CursorBox("ab" * 32)
_CURSOR = Cursor(7, 9, "11111111-1111-4111-8111-111111111111", "cd" * 16)
_written = _box.write("caller", _CURSOR)


@st.composite
def cursor_texts(draw: st.DrawFn) -> str:
    """A true cursor, changed; or any text."""
    if draw(st.booleans()):
        return draw(hostile.words)
    at, to = sorted((draw(st.integers(0, len(_written))), draw(st.integers(0, len(_written)))))
    return _written[:at] + draw(st.text(max_size=4)) + _written[to:]


def check_cursor(text: str) -> Work:
    """Only the text that was written opens, and only for its caller."""
    for caller_id in ("caller", "other"):
        try:
            cursor = _box.read(caller_id, text)
        except ValueError:
            continue
        assert (caller_id, text, cursor) == ("caller", _written, _CURSOR), "a forged cursor opens"
    return Work(len(text.encode("utf-8", "surrogatepass")))


_shapes = hostile.json_bytes(hostile.mutated(hostile.values))
_repeated = st.builds(
    lambda piece, count, end: piece * count + end,
    st.sampled_from((b"\\", b'\\"', b'"', b"[", b"{", b'{"a":', b"[],", b'"a",', b"0,", b"\xff", b" ")),
    st.sampled_from((1, 31, 32, 33, 70_000)),
    st.binary(max_size=8),
)


def check_shape(data: bytes) -> Work:
    """A parser builds no deeper value, and no more values, than were counted."""
    shape = shape_of(data)
    verdict = judge(data, MAX_DEPTH, 1000)
    assert (verdict is Verdict.FITS) == (shape.depth <= MAX_DEPTH and shape.values <= 1000)
    if verdict is Verdict.FITS:
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            return Work(len(data))
        depth, values = _counted(value)
        assert depth <= shape.depth and values <= shape.values, "more is built than was counted"
    return Work(len(data))


def _counted(value: Any) -> tuple[int, int]:
    """Depth and number of values, keys included."""
    if not isinstance(value, dict | list):
        return 0, 1
    inner = [_counted(item) for item in (value.values() if isinstance(value, dict) else value)]
    keys = len(value) if isinstance(value, dict) else 0
    return 1 + max((d for d, _ in inner), default=0), 1 + keys + sum(v for _, v in inner)


TARGETS = (
    Target(
        "urls",
        "children's URLs and the addresses that their names resolve to",
        lambda: st.tuples(urls, st.sampled_from(("8.8.8.8", "::1", "fe80::1%lo", "x", "::ffff:127.0.0.1"))),
        stateless(check_url),
    ),
    Target("cursors", "cursors of the feed", cursor_texts, stateless(check_cursor)),
    Target(
        "json-shape",
        "the shape of JSON texts before they are parsed",
        lambda: _shapes | _repeated,
        stateless(check_shape),
    ),
)
