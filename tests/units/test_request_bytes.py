"""A request is given to a thread once it is here, however it was cut."""

from __future__ import annotations

import timeit
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonesched.serving.request_bytes import GATHERED_BODY_BYTES, HEAD_BYTES, RequestBytes

HEAD = b"POST /servers HTTP/1.1\r\nHost: zone\r\nContent-Length: %d\r\nAccept: x\r\n\r\n"


def whole_after(pieces: list[bytes]) -> int:
    """After how many of the pieces the request was here; 0 for never."""
    request = RequestBytes()
    found = [number for number, piece in enumerate(pieces, 1) if request.add(piece)]
    assert request.take() == b"".join(pieces)
    return found[0] if found else 0


@given(body=st.binary(max_size=40), cuts=st.lists(st.integers(0, 120), max_size=6))
def test_it_is_here_with_its_last_byte(body: bytes, cuts: list[int]) -> None:
    request = HEAD % len(body) + body
    places = sorted({0, *(cut for cut in cuts if cut < len(request)), len(request)})
    pieces = [request[a:b] for a, b in pairwise(places)]

    assert whole_after(pieces) == len(pieces)


@given(st.integers(0, 90))
def test_a_byte_less_is_not_a_request(missing: int) -> None:
    request = HEAD % 20 + b"x" * 20
    assert whole_after([request[: len(request) - 1 - missing % len(request)]]) == 0


def test_without_a_length_it_ends_with_its_head() -> None:
    assert whole_after([b"GET / HTTP/1.1\r\nHost: zone\r\n", b"\r\n"]) == 2


def test_a_body_of_unknown_length_is_read_by_the_thread() -> None:
    for line in (b"Transfer-Encoding: chunked", b"Expect: 100-continue\r\nContent-Length: 9"):
        request = RequestBytes()
        assert request.add(b"POST / HTTP/1.1\r\n%s\r\n\r\n" % line)
        assert request.has_more


@pytest.mark.parametrize("length", [b"9" * 19, b"9" * 5000, b"100000".zfill(19), b"5".zfill(40)])
def test_a_length_of_many_digits_is_unknown(length: bytes) -> None:
    request = RequestBytes()
    assert request.add(b"POST / HTTP/1.1\r\nHost: zone\r\ncontent-length:\t" + length + b"\r\n\r\n")
    assert request.has_more
    assert request.body_bytes == 0


def test_a_length_with_a_few_leading_zeros_is_known() -> None:
    request = RequestBytes()
    assert not request.add(b"POST / HTTP/1.1\r\nContent-Length: 000000000000000020\r\n\r\n")
    assert request.body_bytes == 20


def test_of_a_long_body_only_the_beginning_is_waited_for() -> None:
    request = RequestBytes()
    assert not request.add(HEAD % (GATHERED_BODY_BYTES + 1))
    assert request.add(b"x" * GATHERED_BODY_BYTES)
    assert request.has_more


def test_the_rest_of_a_long_body_is_waited_for_when_asked() -> None:
    request = RequestBytes()
    length = GATHERED_BODY_BYTES + 10
    assert request.add(HEAD % length + b"x" * GATHERED_BODY_BYTES)
    assert request.body_bytes == length
    request.await_whole_body()
    assert not request.is_complete
    assert not request.add(b"x" * 9)
    assert request.add(b"x")
    assert not request.has_more


@pytest.mark.parametrize(("first", "is_line"), [(b"GET /", True), (b"GET / HTTP/1.1\r\nX: ", False)])
def test_a_head_without_end_is_too_long(first: bytes, is_line: bool) -> None:
    request = RequestBytes()
    assert not request.add(first + b"x" * (HEAD_BYTES - 30))
    assert not request.is_too_long
    assert request.add(b"x" * 60)
    assert (request.is_too_long, request.has_long_request_line) == (True, is_line)


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\nHost: a\n\n", b"GET / HTTP/1.1\r\nHost: a\n\r\n"])
def test_a_bare_line_feed_is_for_the_parser_to_refuse(head: bytes) -> None:
    request = RequestBytes()
    assert request.add(head)
    assert not request.is_too_long


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"Authorization: Basic abc=", b"Basic abc="),
        (b"AUTHORIZATION:\tBasic abc= \t", b"Basic abc="),
        (b"X-Authorization: Basic abc=", b""),
        (b"X: authorization: y", b""),
    ],
)
def test_the_authorization_of_a_head_is_found(line: bytes, found: bytes) -> None:
    request = RequestBytes()
    request.add(b"GET / HTTP/1.1\r\nHost: a\r\n" + line + b"\r\nX: y\r\n\r\n")
    assert request.authorization == found


def test_what_is_taken_is_gone() -> None:
    request = RequestBytes()
    request.add(HEAD % 0)
    request.take()
    assert not request
    assert not request.add(b"GET")


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"a", b"a\r"]), max_size=8))
def test_a_line_feed_alone_ends_the_wait_wherever_the_head_is_cut(pieces: list[bytes]) -> None:
    head = b"".join(pieces)
    ended = [number for number in range(1, len(head) + 1) if head[:number].endswith((b"\r\n\r\n", b"\n"))]
    ended = [n for n in ended if head[:n].endswith(b"\r\n\r\n") or not head[:n].endswith(b"\r\n")]

    assert whole_after([head[n : n + 1] for n in range(len(head))]) == (ended[0] if ended else 0)


def test_a_byte_costs_the_same_in_a_long_head() -> None:
    def costs(lines: int) -> float:
        request = RequestBytes()
        request.add(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * lines)
        return min(timeit.repeat(lambda: request.add(b"a"), number=20, repeat=40))

    assert costs(7_000) < 10 * costs(10)
