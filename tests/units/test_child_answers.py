"""A child's answer is unverified input: what is not exactly as it should be is no answer at all."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from zonesched.api.schemas.reservations import ChangesQuery
from zonesched.errors import ChildUnreachable
from zonesched.model.build_plan import MAX_TIE, MAX_WEIGHT, FunnelStep, Refusal
from zonesched.model.desired_call import DesiredOf
from zonesched.model.desired_state import Desired
from zonesched.model.observed_state import NO_RESIZES, Resizes
from zonesched.model.offer_page import Page
from zonesched.model.placement import Attempt, BuildAnswer, BuildState, InstanceChange, InstanceStatus
from zonesched.model.request_spec import Flavor, Image, Policy, RequestSpec
from zonesched.model.request_wire import flavor_to_wire, image_to_wire
from zonesched.scheduler.scale import Range
from zonesched.seal.entry_form import blob_from_text, blob_to_text
from zonesched.zones import answers
from zonesched.zones.child_requests import read_request
from zonesched.zones.unverified import Invalid, Unverified, blob_bytes

UUID = "11111111-1111-4111-8111-111111111111"
OTHER_UUID = "22222222-2222-4222-8222-222222222222"
BLOB_BYTES = 256


def a_spec(num_instances: int = 3, alternates: int = 2, policy: Policy = Policy.EACH) -> RequestSpec:
    flavor = Flavor("1", "small", vcpus=1, ram_mb=512, disk_gb=10)
    return RequestSpec("req-1", "project-1", num_instances, flavor, Image("1", "cirros"), alternates, policy)


def a_blob(number: int, size: int = BLOB_BYTES) -> str:
    return blob_to_text(number.to_bytes(4, "big") * (size // 4))


def entries(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"weight": 10 + n, "tie": 4, "blob": a_blob(start + n)} for n in range(count)]


def an_offer(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "weights": entries(3),
        "alternates": entries(2, start=3),
        "bundles": [],
        "complete": True,
        "expires_in": 59.5,
        "why": [{"filter": "RamFilter", "code": "not_enough_ram", "before": 10, "after": 4}],
        **changes,
    }


def an_info(**changes: Any) -> dict[str, Any]:
    return {
        "name": "region",
        "uuid": UUID,
        "zone_capabilities": ["tier=gold;silver", "gpu=yes"],
        "services": {"compute": {"MEMORY_MB": "1024.0,4096.0", "CUSTOM_GPU": "1,8"}},
        "weighers": {"RAMWeigher": "-1.5,1e+16", "own.module.Weigher": "0,0"},
        "traits": ["HW_CPU_X86_AVX2"],
        "availability_zones": ["az1"],
        "blob_size": 512,
        "can_seal": True,
        "complete": True,
        **changes,
    }


def read_offer(content: Any, spec: RequestSpec | None = None, blob_size: int = BLOB_BYTES) -> Any:
    return answers.read_offer(orjson.dumps(content), spec or a_spec(), blob_size)


def refused(read: Callable[[bytes], Any], body: bytes) -> bool:
    """Check the refusal: one fault, one text."""
    try:
        read(body)
    except ChildUnreachable as fault:
        assert fault.code == "child_invalid_answer"
        assert fault.message == "The answer of the child zone is not a valid one."
        return True
    return False


def refuses_offer(content: Any, spec: RequestSpec | None = None) -> bool:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return refused(lambda unverified: answers.read_offer(unverified, spec or a_spec(), BLOB_BYTES), body)


@pytest.mark.parametrize(("says", "asked", "more"), [(True, 3, True), (False, 3, False), (True, 4, False)])
def test_only_a_full_page_may_be_followed_by_another(says: bool, asked: int, more: bool) -> None:
    body = orjson.dumps(an_offer(more=says))

    assert answers.read_offer(body, a_spec(), BLOB_BYTES, Page(0, asked)).more is more


def test_a_page_has_no_more_entries_than_were_asked_for() -> None:
    body = orjson.dumps(an_offer())

    assert refused(lambda unverified: answers.read_offer(unverified, a_spec(), BLOB_BYTES, Page(3, 2)), body)


def test_an_offer_is_read_in_its_order() -> None:
    offer = read_offer(an_offer(new_member={"of": ["a", "later", "version"]}))

    assert [tuple(entry) for entry in offer.entries] == [(10 + n, 4, a_blob(n)) for n in range(3)]
    assert [entry.weight for entry in offer.alternates] == [10, 11]
    assert (offer.bundles, offer.complete, offer.expires_in_s) == ((), True, 59.5)
    assert offer.why == (FunnelStep("RamFilter", "not_enough_ram", 10, 4),)


def test_reasons_without_counts_are_refusals() -> None:
    offer = read_offer(an_offer(why=[{"filter": "RamFilter", "code": "not_enough_ram"}]))

    assert offer.why == (Refusal("RamFilter", "not_enough_ram"),)


def test_an_empty_offer_and_the_extremes_are_read() -> None:
    extremes = [
        {"weight": 0, "tie": 4, "blob": a_blob(1)},
        {"weight": MAX_WEIGHT, "tie": 4, "blob": a_blob(2)},
    ]

    assert read_offer(an_offer(weights=[], alternates=[], why=[], expires_in=0)).entries == ()
    assert len(read_offer(an_offer(weights=extremes, alternates=[])).entries) == 2


def test_an_affinity_offer_has_bundles_of_all_instances() -> None:
    bundles = [
        {"weight": 5, "tie": 4, "blobs": [a_blob(1), a_blob(2)]},
        {"weight": 7, "tie": 4, "blobs": [a_blob(3), a_blob(4)]},
    ]
    spec = a_spec(num_instances=2, alternates=1, policy=Policy.AFFINITY)

    offer = read_offer(an_offer(weights=[], alternates=[], bundles=bundles), spec)

    assert [tuple(bundle) for bundle in offer.bundles] == [
        (5, 4, (a_blob(1), a_blob(2))),
        (7, 4, (a_blob(3), a_blob(4))),
    ]


BAD_WEIGHTS: list[object] = [
    -1,
    MAX_WEIGHT + 1,
    2**64,
    10**400,
    1.0,
    1.5,
    1e3,
    True,
    False,
    None,
    "1",
    [],
    {},
]
BAD_BLOBS = [
    "",
    "A",
    "A" * 341,
    a_blob(9) + "A",
    a_blob(9)[:-1],
    a_blob(9) + "==",
    "+" + a_blob(9)[1:],
    "/" + a_blob(9)[1:],
    " " + a_blob(9)[1:],
    "\n" + a_blob(9)[1:],
    "é" + a_blob(9)[1:],
    a_blob(9)[:-1] + "x",
    a_blob(9, size=260),
    a_blob(9, size=70_000),
    None,
    1,
    [],
    [a_blob(9)],
]


@pytest.mark.parametrize("weight", BAD_WEIGHTS, ids=lambda value: str(value)[:20])
def test_a_weight_is_a_whole_number_in_range(weight: Any) -> None:
    assert refuses_offer(an_offer(weights=[*entries(1), {"weight": weight, "tie": 4, "blob": a_blob(9)}]))
    assert refuses_offer(an_offer(alternates=[{"weight": weight, "tie": 4, "blob": a_blob(9)}]))


@pytest.mark.parametrize("tie", [-1, MAX_TIE + 1, 1.0, "1", None, True], ids=str)
def test_a_tie_key_is_a_whole_number_in_range(tie: Any) -> None:
    odd = {"weight": 1, "tie": tie, "blob": a_blob(9)}
    whole = a_spec(2, policy=Policy.AFFINITY)
    bundle = {"weight": 1, "tie": tie, "blobs": [a_blob(1), a_blob(2)]}
    assert refuses_offer(an_offer(weights=[*entries(1), odd]))
    assert refuses_offer(an_offer(alternates=[odd]))
    assert refuses_offer(an_offer(weights=[], alternates=[], bundles=[bundle]), whole)
    bundle["tie"] = odd["tie"] = MAX_TIE
    assert read_offer(an_offer(alternates=[odd])).alternates[0].tie == MAX_TIE
    assert read_offer(an_offer(weights=[], alternates=[], bundles=[bundle]), whole).bundles[0].tie == MAX_TIE


@pytest.mark.parametrize("blob", BAD_BLOBS, ids=lambda value: str(value)[:20])
def test_a_blob_has_one_length_and_one_spelling(blob: Any) -> None:
    assert refuses_offer(an_offer(weights=[*entries(1), {"weight": 1, "tie": 4, "blob": blob}]))
    assert refuses_offer(an_offer(alternates=[{"weight": 1, "tie": 4, "blob": blob}]))


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": entries(4)},
        {"alternates": entries(3, start=10)},
        {"weights": [*entries(2), entries(1)[0]]},
        {"alternates": entries(1)},
        {"bundles": [{"weight": 1, "tie": 4, "blobs": [a_blob(7), a_blob(8), a_blob(9)]}]},
        {"weights": None},
        {"weights": {}},
        {"weights": [None]},
        {"weights": ["weight"]},
        {"weights": [[1, 2]]},
        {"weights": [{"weight": 1}]},
        {"weights": [{"weight": 1, "blob": a_blob(9)}]},
        {"weights": [{"blob": a_blob(9)}]},
        {"alternates": {}},
        {"version": 2},
        {"version": True},
        {"version": "1"},
        {"complete": None},
        {"complete": 1},
        {"complete": "true"},
        {"expires_in": -1},
        {"expires_in": 3601},
        {"expires_in": "60"},
        {"expires_in": True},
        {"expires_in": None},
        {"why": {}},
        {"why": [{"filter": "RamFilter", "code": "x"}] * 65},
        {"why": ["RamFilter"]},
        {"why": [{"filter": "host-17", "code": "x"}]},
        {"why": [{"filter": "Ram Filter", "code": "x"}]},
        {"why": [{"filter": "", "code": "x"}]},
        {"why": [{"filter": "F" * 129, "code": "x"}]},
        {"why": [{"filter": "RamFilter", "code": "Host 10.0.0.1 is full"}]},
        {"why": [{"filter": "RamFilter", "code": "x\n"}]},
        {"why": [{"filter": "RamFilter", "code": "x" * 65}]},
        {"why": [{"filter": "RamFilter"}]},
        {"why": [{"filter": "RamFilter", "code": "x", "before": 1}]},
        {"why": [{"filter": "RamFilter", "code": "x", "before": 1, "after": -1}]},
        {"why": [{"filter": "RamFilter", "code": "x", "before": 1.5, "after": 1}]},
    ],
    ids=str,
)
def test_an_offer_out_of_form_is_refused(changes: dict[str, Any]) -> None:
    assert not refuses_offer(an_offer())
    assert refuses_offer(an_offer(**changes))


@pytest.mark.parametrize("missing", ["version", "weights", "complete", "expires_in"])
def test_an_offer_without_what_it_has_to_have_is_refused(missing: str) -> None:
    content = an_offer()
    del content[missing]

    assert refuses_offer(content)


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": entries(1), "bundles": []},
        {"alternates": entries(1), "bundles": []},
        {"bundles": [{"weight": 1, "tie": 4, "blobs": [a_blob(1)]}]},
        {"bundles": [{"weight": 1, "tie": 4, "blobs": [a_blob(1), a_blob(2), a_blob(3)]}]},
        {"bundles": [{"weight": 1, "tie": 4, "blobs": [a_blob(1), a_blob(1)]}]},
        {"bundles": [{"weight": 1.0, "tie": 4, "blobs": [a_blob(1), a_blob(2)]}]},
        {"bundles": [{"weight": 1, "tie": 4, "blobs": [a_blob(1), None]}]},
        {"bundles": [{"weight": 1, "tie": 4, "blobs": a_blob(1)}]},
        {"bundles": [{"weight": 1, "tie": 4, "blobs": [a_blob(n), a_blob(n + 9)]} for n in range(3)]},
        {"bundles": None},
    ],
    ids=str,
)
def test_an_affinity_offer_out_of_form_is_refused(changes: dict[str, Any]) -> None:
    spec = a_spec(num_instances=2, alternates=1, policy=Policy.AFFINITY)

    assert refuses_offer(an_offer(**{"weights": [], "alternates": [], **changes}), spec)


def test_blobs_larger_than_the_child_has_told_are_refused() -> None:
    assert read_offer(an_offer(), blob_size=256)
    with pytest.raises(ChildUnreachable):
        read_offer(an_offer(), blob_size=255)


GARBAGE = [
    b"",
    b" ",
    b"null",
    b"[]",
    b'"text"',
    b"NaN",
    b"{",
    b"<html>502 Bad Gateway</html>",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"[" * 100_000 + b"]" * 100_000,
    b'{"weights":' * 100_000 + b"1" + b"}" * 100_000,
    b'{"a":"\\ud800"}',
    b'{"a:b":' * 1000 + b"1" + b"}" * 1000,
]


@pytest.mark.parametrize("body", GARBAGE, ids=lambda body: repr(body[:20]))
def test_what_is_not_a_json_object_is_refused_by_every_reader(body: bytes) -> None:
    assert refuses_offer(body)
    assert refused(answers.read_info, body)
    assert refused(answers.read_changes, body)
    assert refused(lambda b: answers.read_builds(b, []), body)
    assert refused(lambda b: answers.read_server(b, UUID), body)
    assert (answers.error_kind(body), answers.error_code(body)) == ("", "")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "01", "0x10", "1_0"])
def test_numbers_that_json_has_not_are_refused(number: str) -> None:
    body = orjson.dumps(an_offer()).replace(b"59.5", number.encode())

    assert refuses_offer(body)


@pytest.mark.parametrize(
    ("once", "twice"),
    [
        (b'"version":1', b'"version":1,"version":1'),
        (b'"weight":10', b'"weight":10,"weight":0'),
        (b'"weight":10', b'"weight":10,"w\\u0065ight":0'),
        (b'"weight":10', b'"weight" : 10 ,"weight"\n:0'),
        (b'"complete":true', b'"complete":false,"x":{"a":1,"a":1},"complete":true'),
    ],
)
def test_a_member_that_is_named_twice_is_refused(once: bytes, twice: bytes) -> None:
    body = orjson.dumps(an_offer())

    assert not refuses_offer(body.replace(once, once + b',"x":"a:b"'))
    assert refuses_offer(body.replace(once, twice))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text('ab:\\"', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab:", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("ab:", max_size=2), json_values, max_size=4), st.booleans())
def test_json_without_repeated_members_is_read_whatever_its_texts_hold(
    content: dict[str, Any], spaced: bool
) -> None:
    body = json.dumps(content, indent=2 if spaced else None).encode()

    assert dict(Unverified.parse(body).items()) == content


@given(st.lists(st.binary(min_size=6, max_size=9), min_size=1, max_size=5))
def test_columns_of_blobs_are_taken_as_the_reader_of_single_ones_takes_them(raws: list[bytes]) -> None:
    texts = [base64.urlsafe_b64encode(raw).rstrip(b"=").decode() for raw in raws]

    uniform = len(set(map(len, texts))) == 1 and len(set(texts)) == len(texts)
    try:
        size = blob_bytes(texts)
    except Invalid:
        assert not uniform
    else:
        assert uniform and {len(blob_from_text(text)) for text in texts} == {size}


@given(st.text(st.characters(codec="ascii") | st.sampled_from("AQgwé-_"), min_size=1, max_size=12))
def test_a_blob_is_taken_exactly_if_it_can_be_read_later(text: str) -> None:
    def taken(read: Callable[[], object]) -> bool:
        try:
            read()
        except ValueError:
            return False
        return True

    assert taken(lambda: blob_bytes([text])) == taken(lambda: blob_from_text(text))


def test_an_info_is_read() -> None:
    info = answers.read_info(orjson.dumps({"zone": an_info()}))

    assert (info.uuid, info.blob_size, info.can_seal, info.complete) == (UUID, 512, True, True)
    assert info.ranges == {"RAMWeigher": Range(-1.5, 1e16), "own.module.Weigher": Range(0, 0)}
    assert info.capacities == {"MEMORY_MB": Range(1024, 4096), "CUSTOM_GPU": Range(1, 8)}
    assert info.zone_capabilities == {"tier": {"gold", "silver"}, "gpu": {"yes"}}
    both = answers.read_info(orjson.dumps({"zone": an_info(zone_capabilities=["tier=gold", "tier=silver"])}))
    assert both.zone_capabilities == {"tier": {"gold", "silver"}}
    assert (info.traits, info.availability_zones) == (frozenset({"HW_CPU_X86_AVX2"}), frozenset({"az1"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"uuid": UUID.upper() + "x"},
        {"uuid": "ABCDEF00-1111-4111-8111-111111111111"},
        {"uuid": None},
        {"blob_size": 255},
        {"blob_size": 65_537},
        {"blob_size": 256.0},
        {"can_seal": 1},
        {"complete": None},
        {"weighers": {"RAMWeigher": "nan,1"}},
        {"weighers": {"RAMWeigher": "0,inf"}},
        {"weighers": {"RAMWeigher": "0,1e400"}},
        {"weighers": {"RAMWeigher": "0,1e19"}},
        {"weighers": {"RAMWeigher": "2,1"}},
        {"weighers": {"RAMWeigher": "1"}},
        {"weighers": {"RAMWeigher": "1,2,3"}},
        {"weighers": {"RAMWeigher": " 1,2"}},
        {"weighers": {"RAMWeigher": "1_0,20"}},
        {"weighers": {"RAMWeigher": "\u0661,\u0662"}},
        {"weighers": {"RAMWeigher": [1, 2]}},
        {"weighers": {"a b": "1,2"}},
        {"weighers": {f"W{n}": "1,2" for n in range(10_001)}},
        {"weighers": []},
        {"services": {}},
        {"services": {"compute": {"MEMORY_MB": 4096}}},
        {"traits": "HW"},
        {"traits": ["x" * 256]},
        {"traits": [""]},
        {"traits": ["a\nb"]},
        {"traits": ["a\x9b2Jb"]},
        {"traits": [1]},
        {"traits": [f"T{n}" for n in range(10_001)]},
        {"availability_zones": None},
        {"availability_zones": ["x" * 256]},
        {"availability_zones": ["a\u202eb"]},
        {"zone_capabilities": ["k=\x9b2J"]},
        {"zone_capabilities": ["tier"]},
        {"zone_capabilities": ["=x"]},
        {"zone_capabilities": ["a=b=c"]},
        {"zone_capabilities": ["k=v"] * 257},
        {"zone_capabilities": {"tier": "gold"}},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_an_info_out_of_form_is_refused(changes: dict[str, Any]) -> None:
    assert refused(answers.read_info, json.dumps({"zone": an_info(**changes)}).encode())


@pytest.mark.parametrize("missing", sorted(an_info().keys() - {"name"}))
def test_an_info_without_what_it_has_to_have_is_refused(missing: str) -> None:
    content = an_info()
    del content[missing]

    assert refused(answers.read_info, orjson.dumps({"zone": content}))


def a_build(uuid: str = UUID, attempt: int = 1, **changes: Any) -> dict[str, Any]:
    return {"uuid": uuid, "attempt": attempt, "state": "held", "hold_s": 29.5, "reason": "", **changes}


def read_builds(builds: Any, *attempts: Attempt) -> list[BuildAnswer]:
    asked = attempts or (Attempt(UUID, 1), Attempt(OTHER_UUID, 2))
    return answers.read_builds(json.dumps({"builds": builds}).encode(), asked)


def test_builds_are_answered_in_the_order_they_were_asked_in() -> None:
    found = read_builds([a_build(OTHER_UUID, 2, state="failed", hold_s=0, reason="no_free_slots"), a_build()])

    assert found == [
        BuildAnswer(UUID, 1, BuildState.HELD, 29.5),
        BuildAnswer(OTHER_UUID, 2, BuildState.FAILED, 0.0, "no_free_slots"),
    ]


@pytest.mark.parametrize(
    "builds",
    [
        [],
        [a_build()],
        [a_build(), a_build()],
        [a_build(), a_build(OTHER_UUID, 1)],
        [a_build(), a_build(OTHER_UUID, 2), a_build(OTHER_UUID, 3)],
        [a_build(), a_build(OTHER_UUID, 2), a_build(OTHER_UUID, 2)],
        [a_build(), a_build(OTHER_UUID, 2, state="done")],
        [a_build(), a_build(OTHER_UUID, 2, state=1)],
        [a_build(), a_build(OTHER_UUID, 2, hold_s=-1)],
        [a_build(), a_build(OTHER_UUID, 2, hold_s=3601)],
        [a_build(), a_build(OTHER_UUID, 2, hold_s=float("nan"))],
        [a_build(), a_build(OTHER_UUID, 2, hold_s=float("inf"))],
        [a_build(), a_build(OTHER_UUID, 2, reason="Host compute-17 is full")],
        [a_build(), a_build(OTHER_UUID, 2, reason=None)],
        [a_build(), a_build(OTHER_UUID, 2.0)],  # type: ignore[arg-type]
        [a_build(), a_build(OTHER_UUID, True)],
        [a_build(), None],
        {"uuid": UUID},
    ],
    ids=str,
)
def test_builds_are_answered_exactly_once_each_and_in_form(builds: Any) -> None:
    with pytest.raises(ChildUnreachable):
        read_builds(builds)


def test_an_attempt_is_not_answered_under_another_number() -> None:
    with pytest.raises(ChildUnreachable):
        read_builds([a_build(attempt=1)], Attempt(UUID, 2))


def a_change(**changes: Any) -> dict[str, Any]:
    line = {"uuid": UUID, "attempt": 1, "status": "ACTIVE", "state": "confirmed", "reason": ""}
    return {**line, **changes}


def test_changes_are_read() -> None:
    content = {
        "instances": [a_change(status="ERROR", state="failed", reason="no_free_slots")],
        "cursor": f"17.{UUID}",
        "more": True,
    }

    found = answers.read_changes(orjson.dumps(content))

    assert found.items == (InstanceChange(UUID, 1, InstanceStatus.ERROR, BuildState.FAILED, "no_free_slots"),)
    assert (found.cursor, found.more) == (f"17.{UUID}", True)


def test_the_longest_cursor_that_is_read_is_the_longest_that_a_zone_takes() -> None:
    longest = {"instances": [], "cursor": "x" * 255, "more": False}

    cursor = answers.read_changes(orjson.dumps(longest)).cursor

    assert ChangesQuery.model_validate({"cursor": cursor}).cursor == cursor
    with pytest.raises(ValidationError):
        ChangesQuery.model_validate({"cursor": cursor + "x"})


@pytest.mark.parametrize(
    "changes",
    [
        {"instances": [a_change(status="PAUSED")]},
        {"instances": [a_change(uuid="x")]},
        {"instances": [a_change(state="well")]},
        {"instances": [a_change(state=None)]},
        {"instances": [a_change(reason="on host-17")]},
        {"instances": [a_change()] * 10_001},
        {"instances": None},
        {"cursor": "a b"},
        {"cursor": "x" * 256},
        {"cursor": 17},
        {"more": 0},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_changes_out_of_form_are_refused(changes: dict[str, Any]) -> None:
    content = {"instances": [a_change()], "cursor": "", "more": False}

    assert not refused(answers.read_changes, orjson.dumps(content))
    assert refused(answers.read_changes, orjson.dumps({**content, **changes}))


def a_server(**changes: Any) -> dict[str, Any]:
    return {
        "id": UUID,
        "attempt": 2,
        "status": "ERROR",
        "state": "confirmed",
        "name": "x",
        "reason": "no_free_slots",
        **changes,
    }


def test_a_server_is_read() -> None:
    failed = answers.read_server(orjson.dumps({"server": a_server()}), UUID)
    content = a_server(status="ACTIVE")
    del content["reason"]
    active = answers.read_server(orjson.dumps({"server": content}), UUID)

    assert failed == InstanceChange(UUID, 2, InstanceStatus.ERROR, BuildState.CONFIRMED, "no_free_slots")
    assert active == InstanceChange(UUID, 2, InstanceStatus.ACTIVE, BuildState.CONFIRMED)


@pytest.mark.parametrize(
    "changes", [{"id": OTHER_UUID}, {"status": "SHUTOFF"}, {"reason": "No Room"}, {"attempt": None}], ids=str
)
def test_a_server_out_of_form_is_refused(changes: dict[str, Any]) -> None:
    body = orjson.dumps({"server": a_server(**changes)})

    assert refused(lambda unverified: answers.read_server(unverified, UUID), body)


@pytest.mark.parametrize(
    ("content", "kind", "code"),
    [
        ({"badRequest": {"code": 400, "error_code": "blob_refused"}}, "badRequest", "blob_refused"),
        ({"itemNotFound": {"code": 404, "message": "x"}}, "itemNotFound", ""),
        ({"itemNotFound": {}, "badRequest": {}}, "", ""),
        ({"itemNotFound": "x"}, "", ""),
        ({"badRequest": {"error_code": "Host 17"}}, "", ""),
        ({}, "", ""),
    ],
)
def test_of_an_error_only_kind_and_code_are_read(content: Any, kind: str, code: str) -> None:
    body = orjson.dumps(content)

    assert (answers.error_kind(body), answers.error_code(body)) == (kind, code)


READERS: list[tuple[Callable[[bytes], Any], Any]] = [
    (lambda body: answers.read_offer(body, a_spec(), BLOB_BYTES), an_offer()),
    (answers.read_info, {"zone": an_info()}),
    (lambda body: answers.read_builds(body, [Attempt(UUID, 1)]), {"builds": [a_build()]}),
    (answers.read_changes, {"instances": [a_change()], "cursor": "", "more": False}),
    (lambda body: answers.read_server(body, UUID), {"server": a_server()}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("read", "content"), READERS)
def test_of_20000_broken_answers_each_none_breaks_the_reader(
    read: Callable[[bytes], Any], content: Any
) -> None:
    chance = random.Random(7)
    good = orjson.dumps(content)
    read(good)

    for _ in range(20_000):
        broken = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(broken))
            piece = bytes(chance.choices(b'0123456789eE+-.,:{}[]" \\ntfu\x00\xff', k=chance.randint(0, 3)))
            broken[at : at + chance.randint(0, 3)] = piece
        refused(read, bytes(broken))


@pytest.mark.parametrize("named", ["image", "flavor"])
def test_a_request_that_is_given_back_is_no_larger_than_one_that_is_sent(named: str) -> None:
    def given_back(texts: dict[str, str]) -> bytes:
        flavor = flavor_to_wire(Flavor("f", "f", 1, 1, 1, texts if named == "flavor" else {}))
        image = image_to_wire(Image("i", "i", texts if named == "image" else {}))
        sent = {"reservation_id": UUID, "project_id": "p"}
        body = {"request": sent, "flavor": flavor, "image": image, "settled": {}, "desired": {}}
        return orjson.dumps(body)

    largest = {f"{n:03}": "v" * 253 for n in range(32)}
    assert not refused(read_request, given_back(largest))
    assert refused(read_request, given_back({**largest, "k": "v"}))


@pytest.mark.parametrize(
    ("member", "resizes"),
    [
        ({"resizes": {"begun": 3, "confirmed": 1, "reverted": 1}}, Resizes(3, 1, 1)),
        # A zone of an earlier version does not know resizes.
        ({}, NO_RESIZES),
    ],
)
def test_a_stored_state_has_the_counts_of_resizes_that_the_child_says(
    member: dict[str, Any], resizes: Resizes
) -> None:
    told = [DesiredOf(UUID, 1, Desired(2))]
    counts = {"generation": 2, "reboots": 0, "rebuilds": 0}
    server = {"uuid": UUID, "attempt": 1, "state": "stored", **counts, **member}

    (answer,) = answers.read_desired(orjson.dumps({"servers": [server]}), told)

    assert answer.resizes == resizes
