"""Targets of the HTTP API: calls to a real zone, and what every answer must be."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from hypothesis import strategies as st

from benchmarks.fuzzing.api_inputs import ApiCall, calls, signed_calls
from benchmarks.fuzzing.site import (
    NEVER_UPWARD,
    PARENT,
    Site,
    a_build,
    a_site,
)
from benchmarks.fuzzing.target import Check, Target, Work
from tests.builders.tree import Answer, Client
from zonesched.api.route import Route
from zonesched.api.urls import URLS
from zonesched.errors import Kind
from zonesched.model.caller import Role

SCRYPT_MS = 400.0
"""CPU of the hashes that one call may make: a changed password is checked and hashed."""

CALLS_OF_A_SITE = 1000
"""Calls after which the zone is made anew: what it keeps must not slow down later calls."""

WIRE_MD = Path(__file__).parents[2] / "docs" / "wire.md"
UNAVAILABLE = frozenset(re.findall(r"^\| `(\w+)` \| 503 \|", WIRE_MD.read_text(), re.MULTILINE))
PLUGIN_FAILED = ("filter_failed", "weigher_failed")
"""Codes of a filter or weigher that raises: documented for plugins, and a fault of a built-in one.

Users and admins are answered 503, a parent in the reasons of a select.
"""

KINDS = {(kind.body_name, kind.status) for kind in Kind}
_CODE = re.compile(r"[a-z0-9_]+")


# -- the check ---------------------------------------------------------------------------------------------


class CallCheck:
    """Makes calls to a site and judges their answers."""

    def __init__(self, folder: Path, prepare: Callable[[Site, Any], ApiCall]) -> None:
        self._folder = folder
        self._prepare = prepare
        self._calls = 0
        self._site = self._new_site()

    def __call__(self, given: Any) -> Work:
        if self._calls % CALLS_OF_A_SITE == 0 and self._calls:
            self.close()
            self._site = self._new_site()
        self._calls += 1
        self._site.tree.clock.advance(0.5)
        call = self._prepare(self._site, given)
        answer = self._made(call)
        judge_answer(call, answer)
        return Work(
            call.input_bytes + len(answer.body), SCRYPT_MS if call.hashes_password or not call.user else 0.0
        )

    def close(self) -> None:
        for node in self._site.tree.nodes.values():
            node.zone.store.close()

    def _made(self, call: ApiCall) -> Answer:
        client: Client = self._site.clients[call.user]
        # As a server hands it over: the target as it is written, its path decoded by the client.
        with crashes_told():
            return client.call(call.method, call.path, data=call.body, headers=dict(call.headers))

    def _new_site(self) -> Site:
        return a_site(self._folder / f"site-{self._calls}")


class Crash(AssertionError):
    """The zone answered 500; its cause is what it had not foreseen."""


@contextmanager
def crashes_told() -> Iterator[None]:
    """Raise what the zone answers with a 500, which it writes to its log alone."""
    crashes: list[BaseException] = []

    class _Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1]:
                crashes.append(record.exc_info[1])

    handler, log = _Handler(logging.ERROR), logging.getLogger("zonesched")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
    if crashes:
        raise Crash(str(crashes[0])) from crashes[0]


def judge_answer(call: ApiCall, answer: Answer) -> None:
    """Check what every answer of a zone must be."""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers.get("x-openstack-request-id"), "the answer has no request id"
    if answer.status >= 400 and call.method != "HEAD":
        _judge_fault(answer)
    assert answer.status < 500 or answer.status == 503, f"{answer.status}: {answer.body[:300]!r}"
    if call.user == PARENT:
        asked = call.path.encode("utf-8", "replace") + call.body
        told = [text for text in NEVER_UPWARD if text.encode() in answer.body and text.encode() not in asked]
        assert not told, f"a parent is told {told}"
        failed = [code for code in PLUGIN_FAILED if f'"code":"{code}"'.encode() in answer.body]
        assert not failed, f"a built-in plugin failed: {failed}"


def _judge_fault(answer: Answer) -> None:
    body = orjson.loads(answer.body)
    ((name, fault),) = body.items()
    assert (name, answer.status) in KINDS and answer.status == fault["code"], (
        f"{answer.status}: {answer.body[:300]!r}"
    )
    assert _CODE.fullmatch(fault["error_code"]) and isinstance(fault["message"], str)
    assert isinstance(fault["field"], str)
    if answer.status == 503:
        assert fault["error_code"] in UNAVAILABLE, f"{fault['error_code']} is no documented 503"
        assert fault["error_code"] not in PLUGIN_FAILED, f"a built-in plugin failed: {fault['message']}"


def _opened(prepare: Callable[[Site, Any], ApiCall]) -> Callable[[Path], Any]:
    @contextmanager
    def opened(folder: Path) -> Iterator[Check]:
        check = CallCheck(folder, prepare)
        try:
            yield check
        finally:
            check.close()

    return opened


def _as_given(site: Site, call: ApiCall) -> ApiCall:
    return call


# -- a parent's calls, deep --------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlobChange:
    """A change of one sealed entry: bytes `at` to `to` are replaced."""

    at: int
    to: int
    by: bytes


@dataclass(frozen=True)
class ParentBuild:
    """A build of any attempt, whose first entry may be changed."""

    number: int
    attempt: int
    entries: tuple[int, ...]
    change: BlobChange | None


def _build_call(site: Site, given: tuple[ApiCall, ParentBuild | None]) -> ApiCall:
    call, build = given
    if build is None:
        return call
    blobs = list(dict.fromkeys(site.blobs[n % len(site.blobs)] for n in build.entries))
    if build.change is not None:
        blobs[0] = changed_blob(blobs[0], build.change)
    document = a_build(tuple(blobs), build.number)
    document["server"]["builds"][0]["attempt"] = build.attempt
    return replace(call, body=orjson.dumps(document))


def changed_blob(blob: str, change: BlobChange) -> str:
    raw = base64.urlsafe_b64decode(blob + "=" * (-len(blob) % 4))
    return base64.urlsafe_b64encode(raw[: change.at] + change.by + raw[change.to :]).decode().rstrip("=")


_changes = st.builds(BlobChange, st.integers(0, 256), st.integers(0, 256), st.binary(max_size=30))
_builds = st.builds(
    ParentBuild,
    st.integers(1, 50),
    st.sampled_from((0, 1, 2, 2**31 - 1)),
    st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple),
    st.none() | _changes,
)


def _route(method: str, path: str, role: Role) -> Route:
    return next(r for r in URLS if (r.method, r.path) == (method, path) and role in r.roles)


_SELECT = _route("POST", "/zones/select", Role.PARENT)
_OF_PARENTS = [route for route in URLS if route.roles == frozenset({Role.PARENT}) and route is not _SELECT]
_BUILD = ApiCall(PARENT, "POST", "/servers")


TARGETS = (
    Target(
        "calls",
        "every call of the API, by every role",
        calls,
        _opened(_as_given),
    ),
    Target(
        "bodies",
        "every call that takes a body",
        lambda: calls([route for route in URLS if route.body is not None]),
        _opened(_as_given),
    ),
    Target(
        "select",
        "request specs of a parent's select: extra specs, queries, hints, filters, weighing",
        lambda: calls([_SELECT]),
        _opened(_as_given),
    ),
    Target(
        "builds",
        "a parent's builds with true and changed sealed entries, confirms, cancels, feeds",
        lambda: st.tuples(st.just(_BUILD), _builds) | st.tuples(calls(_OF_PARENTS), st.none()),
        _opened(_build_call),
    ),
    Target(
        "authorization",
        "the Authorization header: user names and passwords",
        signed_calls,
        _opened(_as_given),
    ),
)
