"""Limits and types of request fields, and the field that a refusal names."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.spec_bodies import a_spec
from zonesched.api.schemas.actions import ActionBody
from zonesched.api.schemas.audit import ReportedAuditQuery
from zonesched.api.schemas.builds import AttemptsBody, BuildBody, NamedBody
from zonesched.api.schemas.fields import Limits, Schema
from zonesched.api.schemas.flavors import ExtraSpecsBody, FlavorBody
from zonesched.api.schemas.hosts import RegisterBody, ReportsBody
from zonesched.api.schemas.images import ImageBody
from zonesched.api.schemas.keypairs import KeypairBody
from zonesched.api.schemas.limits import ProjectLimitsBody
from zonesched.api.schemas.select import SelectBody
from zonesched.api.schemas.server_details import ChangeServerBody, MetadataBody
from zonesched.api.schemas.server_list import ListQuery
from zonesched.api.schemas.servers import BootBody, CreateBody
from zonesched.api.schemas.users import UserBody
from zonesched.api.schemas.zones import AddZoneBody, ChangeZoneBody
from zonesched.api.validation import validate
from zonesched.errors import BadRequest, Forbidden, ZoneschedError
from zonesched.model.catalog import CatalogFlavor
from zonesched.model.request_spec import (
    CostFunction,
    CostWeighing,
    Flavor,
    Image,
    Policy,
    RequestSpec,
)
from zonesched.model.request_wire import content_digest, spec_to_wire
from zonesched.model.shown_status import Status
from zonesched.model.views import ChildChange

LIMITS = Limits(max_instances=500, max_builds=500)
UUID = "00000000-0000-4000-8000-000000000001"
OTHER_UUID = "00000000-0000-4000-8000-000000000002"
NETWORK = "5ac3d6b0-8c1e-4f4a-9d27-3f0b1a2c4d5e"


def a_server(**changes: Any) -> dict[str, Any]:
    return {"name": "web", "flavorRef": "m1", "imageRef": "linux", **changes}


def a_body(hints: Any = None, **changes: Any) -> dict[str, Any]:
    beside = {} if hints is None else {"os:scheduler_hints": hints}
    return {"server": a_server(**changes), **beside}


def a_select(**changes: Any) -> dict[str, Any]:
    return {"version": 1, "request_spec": {**spec_to_wire(a_spec()), **changes}}


def a_build_call(**server: Any) -> dict[str, Any]:
    item = {"uuid": UUID, "attempt": 1, "blobs": ["AAAA"]}
    return {
        "server": {"reservation_id": UUID, "hold_s": 30.0, "builds": [item], **server},
        "request_spec": spec_to_wire(a_spec()),
    }


def changed(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(body)
    here: Any = result
    *parents, last = path.split(".")
    for part in parents:
        here = here[int(part) if part.isdigit() else part]
    here[int(last) if last.isdigit() else last] = value
    return result


def refusal_of(schema: type[Schema], body: dict[str, Any]) -> ZoneschedError:
    with pytest.raises(ZoneschedError) as refused:
        made: Any = validate(schema, body, LIMITS)
        for step in ("to_form", "to_spec", "to_builds", "checked"):
            if hasattr(made, step):
                getattr(made, step)("", "") if step == "to_form" else getattr(made, step)()
        if isinstance(made, SelectBody):
            made.request_spec.to_spec()
        if isinstance(made, BuildBody):
            made.server.to_builds(OTHER_UUID)
    return refused.value


def form_of(schema: type[CreateBody], body: dict[str, Any]) -> Any:
    return validate(schema, body, LIMITS).to_form("key", "print")


# -- how many ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    [
        0,
        -1,
        501,
        10**9,
        2**70,
        1.0,
        1.5,
        "0",
        "501",
        "-3",
        "3.0",
        "three",
        "",
        "٣",
        True,
        None,
        [3],
        {"n": 3},
    ],
)
@pytest.mark.parametrize("key", ["num_instances", "min_count", "max_count"])
def test_a_number_of_instances_is_a_whole_one_within_limits(key: str, number: Any) -> None:
    refusal = refusal_of(BootBody, a_body(**{key: number}))
    assert refusal.field == f"server.{key}"
    assert refusal.code in {"out_of_range", "wrong_type"}


@pytest.mark.parametrize("number", [float(2**64), -float(2**70), "9" * 30])
def test_an_integer_that_is_far_too_large_is_refused_with_what_is_accepted(number: Any) -> None:
    refusal = refusal_of(BootBody, a_body(num_instances=number))
    assert refusal.code == "out_of_range"
    assert "absolute value at most 2147483647" in refusal.message


def test_a_status_that_there_is_not_is_refused_with_those_that_are_accepted() -> None:
    refusal = refusal_of(ListQuery, {"status": ["foo"]})
    assert refusal.message.startswith("status.0: must be 'BUILD', 'ACTIVE', 'SHUTOFF', ")


def test_a_limit_that_there_is_not_is_refused_with_those_that_are_accepted() -> None:
    refusal = refusal_of(ProjectLimitsBody, {"limits": {"nope": 1}})
    assert (refusal.code, refusal.field) == ("unknown_field", "limits.nope")
    assert "Accepted: project_instances, project_open_boots, " in refusal.message


def test_a_text_of_an_integer_that_a_field_may_take_is_refused_for_its_type() -> None:
    assert refusal_of(BootBody, a_body(num_instances="2147483647")).code == "wrong_type"


@pytest.mark.parametrize(
    ("given_counts", "expected"),
    [
        ({}, (1, 1)),
        ({"num_instances": 5}, (5, 5)),
        ({"num_instances": 5, "min_count": 2}, (2, 5)),
        ({"num_instances": 5, "max_count": 7}, (5, 7)),
        ({"min_count": 1, "max_count": 3}, (1, 3)),
    ],
)
def test_boot_counts_default_to_num_instances(
    given_counts: dict[str, int], expected: tuple[int, int]
) -> None:
    form = form_of(BootBody, a_body(**given_counts))
    assert (form.min_count, form.num_instances) == expected


@pytest.mark.parametrize(
    ("given_counts", "expected"),
    [
        ({}, (1, 1)),
        ({"min_count": 2}, (2, 2)),
        ({"max_count": 3}, (1, 3)),
        ({"min_count": 2, "max_count": 3}, (2, 3)),
    ],
)
def test_server_counts_default_to_one(given_counts: dict[str, int], expected: tuple[int, int]) -> None:
    form = form_of(CreateBody, a_body(**given_counts))
    assert (form.min_count, form.num_instances) == expected


def test_a_minimum_above_the_number_is_refused() -> None:
    refusal = refusal_of(BootBody, a_body(num_instances=3, min_count=4))
    assert (refusal.code, refusal.field) == ("out_of_range", "server.min_count")
    refusal = refusal_of(CreateBody, a_body(max_count=3, min_count=4))
    assert (refusal.code, refusal.field) == ("out_of_range", "server.min_count")


def test_num_instances_belongs_to_boot_only() -> None:
    refusal = refusal_of(CreateBody, a_body(num_instances=2))
    assert (refusal.code, refusal.field) == ("unknown_field", "server.num_instances")


def test_a_name_leaves_room_for_the_numbers_of_a_batch() -> None:
    assert form_of(BootBody, a_body(name="x" * 255)).name == "x" * 255
    assert refusal_of(BootBody, a_body(name="x" * 255, num_instances=2)).field == "server.name"


# -- a user's server ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "body", "field"),
    [
        (ChangeServerBody, {"server": {"name": None}}, "server.name"),
        (ChangeServerBody, {"server": {"name": "web "}}, "server.name"),
        (ActionBody, {"rebuild": {"imageRef": "i", "name": None}}, "rebuild.name"),
        (ActionBody, {"rebuild": {"imageRef": "i", "name": " web"}}, "rebuild.name"),
        (FlavorBody, {"flavor": {"name": " m1", "vcpus": 1, "ram": 1, "disk": 1}}, "flavor.name"),
        (ImageBody, {"image": {"name": "linux "}}, "image.name"),
        (KeypairBody, {"keypair": {"name": " "}}, "keypair.name"),
    ],
)
def test_a_name_has_text_and_no_spaces_around_it(
    schema: type[Schema], body: dict[str, Any], field: str
) -> None:
    assert refusal_of(schema, body).field == field


@pytest.mark.parametrize("key", ["name", "flavorRef"])
def test_what_a_server_must_have(key: str) -> None:
    server = a_server()
    del server[key]
    refusal = refusal_of(CreateBody, {"server": server})
    assert (refusal.code, refusal.field) == ("missing_field", f"server.{key}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", ""),
        ("name", "x" * 256),
        ("name", "a\nb"),
        ("name", "  "),
        ("name", " web"),
        ("name", "web\u3000"),
        ("name", "a\x9b2Jb"),
        ("name", "a\u202eb"),
        ("name", "a\u2028b"),
        ("tags", ["a\x9b2Jb"]),
        ("metadata", {"k": "\x9d0;title\x9c"}),
        ("name", 5),
        ("flavorRef", 1.5),
        ("flavorRef", True),
        ("imageRef", None),
        ("metadata", {"k": 1}),
        ("metadata", {"k": "v" * 256}),
        ("metadata", {"": "v"}),
        ("metadata", {str(n): "v" for n in range(129)}),
        ("metadata", []),
        ("networks", "all"),
        ("networks", 3),
        ("networks", [{"uuid": 3}]),
        ("networks", [{"subnet": "a"}]),
        ("networks", [{}] * 65),
        ("user_data", "not base64!"),
        ("user_data", "A" * 65_540),
        ("security_groups", ["default"]),
        ("security_groups", [{"name": ""}]),
        ("config_drive", "maybe"),
        ("tags", ["a,b"]),
        ("tags", ["t"] * 51),
        ("description", 1),
        ("availability_zone", {}),
        ("return_reservation_id", 1),
        ("block_device_mapping_v2", {}),
        ("personality", [{}]),
        ("adminPass", 1),
        ("blob", "AAAA"),
        ("builds", []),
        ("key_name", ""),
        ("key_name", "laptop "),
        ("availability_zone", " az1"),
        ("security_groups", [{"name": " default"}]),
    ],
)
def test_what_cannot_be_honoured_names_its_field(key: str, value: Any) -> None:
    refusal = refusal_of(CreateBody, a_body(**{key: value}))
    assert isinstance(refusal, BadRequest)
    assert refusal.field.startswith(f"server.{key}")
    assert "[" not in refusal.field


def test_what_is_kept_is_kept_as_it_came() -> None:
    kept = {
        "metadata": {"role": "web"},
        "networks": [{"uuid": NETWORK, "fixed_ip": "10.0.0.1"}],
        "key_name": "k",
        "user_data": "aGVsbG8=",
        "security_groups": [{"name": "default"}],
        "config_drive": True,
        "description": "a web server",
        "tags": ["blue"],
    }
    form = form_of(CreateBody, a_body(availability_zone="az1", **kept))
    assert form.passthrough == kept
    assert form.availability_zone == "az1"


@pytest.mark.parametrize(
    ("member", "spelled", "kept"),
    [
        ("config_drive", "True", True),
        ("config_drive", "on", True),
        ("config_drive", "false", False),
        ("networks", [{"uuid": NETWORK, "port": None}], [{"uuid": NETWORK, "port": None}]),
        ("networks", [{"uuid": NETWORK.upper()}], [{"uuid": NETWORK.upper()}]),
        ("networks", [{"port": NETWORK.replace("-", "")}], [{"port": NETWORK.replace("-", "")}]),
        ("networks", [{"uuid": NETWORK, "fixed_ip": "fd00::1"}], [{"uuid": NETWORK, "fixed_ip": "fd00::1"}]),
        # Base64 with lines of 60 or 76 characters, as Ruby and `base64` write it.
        ("user_data", "aGVs\nbG8=\n", "aGVsbG8="),
        ("user_data", "aGVs\r\nbG8=", "aGVsbG8="),
        ("description", None, None),
    ],
)
def test_what_openstack_nova_takes_otherwise_spelled_is_taken(member: str, spelled: Any, kept: Any) -> None:
    assert form_of(CreateBody, a_body(**{member: spelled})).passthrough == {member: kept}


def test_counts_and_a_flavors_id_may_be_spelled_as_the_other_type() -> None:
    form = form_of(CreateBody, a_body(min_count="2", max_count="3", flavorRef=1))

    assert (form.min_count, form.num_instances, form.flavor_ref) == (2, 3, "1")


@pytest.mark.parametrize("value", ["maybe", "", "0.0", 1, 0])
def test_a_truth_of_a_body_has_known_spellings(value: Any) -> None:
    assert refusal_of(CreateBody, a_body(config_drive=value)).field == "server.config_drive"


@pytest.mark.parametrize(
    ("networks", "field", "code"),
    [
        ([{"uuid": NETWORK}, {"net_id": "n2"}], "server.networks.1.net_id", "unknown_field"),
        ([{"uuid": 3}], "server.networks.0.uuid", "wrong_type"),
        ([{"uuid": "private"}], "server.networks.0.uuid", "invalid_value"),
        ([{"uuid": NETWORK + "\n"}], "server.networks.0.uuid", "invalid_value"),
        ([{"uuid": ""}], "server.networks.0.uuid", "invalid_value"),
        ([{"port": "private"}], "server.networks.0.port", "invalid_value"),
        ([{"uuid": NETWORK, "fixed_ip": "10.0.0"}], "server.networks.0.fixed_ip", "invalid_value"),
        ([{"uuid": NETWORK, "fixed_ip": "fe80::1%eth0"}], "server.networks.0.fixed_ip", "invalid_value"),
        ([{"port": NETWORK, "fixed_ip": "10.0.0.1"}], "server.networks.0", "invalid_value"),
        ([{"uuid": NETWORK, "tag": "a,b"}], "server.networks.0.tag", "invalid_value"),
        ([{"uuid": NETWORK, "tag": "t" * 61}], "server.networks.0.tag", "too_long"),
        ([{"port": None}], "server.networks.0", "invalid_value"),
        ([{}], "server.networks.0", "invalid_value"),
        ([{}] * 65, "server.networks", "too_long"),
        ({"uuid": "n1"}, "server.networks", "invalid_value"),
        ("all", "server.networks", "invalid_value"),
        (None, "server.networks", "invalid_value"),
    ],
)
def test_what_is_wrong_with_a_network_is_said_of_it(networks: Any, field: str, code: str) -> None:
    refusal = refusal_of(CreateBody, a_body(networks=networks))

    assert (refusal.field, refusal.code) == (field, code)


@pytest.mark.parametrize("networks", ["auto", "none"])
def test_networks_may_be_a_word(networks: str) -> None:
    assert form_of(CreateBody, a_body(networks=networks)).passthrough == {"networks": networks}


def test_an_unknown_key_beside_server_is_refused() -> None:
    assert refusal_of(CreateBody, {**a_body(), "servers": {}}).field == "servers"


def test_a_very_long_unknown_key_is_cut() -> None:
    assert len(refusal_of(CreateBody, {**a_body(), "x" * 100_000: 1}).field) == 255


def test_requested_filters_come_once_and_in_order() -> None:
    body = a_body(filter="JSONFilter", filters=["AllHostsFilter", "JSONFilter"])
    assert form_of(BootBody, body).filters == ("JSONFilter", "AllHostsFilter")


@pytest.mark.parametrize("value", ["os; rm", "a/b", "", 5, ["JSONFilter"]])
def test_a_filter_is_named_by_a_word(value: Any) -> None:
    assert refusal_of(BootBody, a_body(filter=value)).field == "server.filter"


# -- hints -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        ("query", 5),
        ("query", "not json"),
        ("query", '{"a": 1}'),
        ("group_policy", "near"),
        ("group_policy", ["affinity"]),
    ],
)
def test_a_known_hint_has_its_type(hint: str, value: Any) -> None:
    refusal = refusal_of(CreateBody, a_body(hints={hint: value}))
    assert isinstance(refusal, BadRequest)
    assert refusal.field.startswith(f"os:scheduler_hints.{hint}")


@pytest.mark.parametrize("hints", [[], "text", 5, None])
def test_hints_are_an_object(hints: Any) -> None:
    refusal = refusal_of(CreateBody, {**a_body(), "os:scheduler_hints": hints})
    assert refusal.field == "os:scheduler_hints"
    assert refusal.message == "os:scheduler_hints: must be an object"


@pytest.mark.parametrize("control", ["\x1b[2J", "\x7f", "\x9b2J", "\x85"])
def test_a_name_has_no_control_character_of_either_set(control: str) -> None:
    refusal = refusal_of(CreateBody, a_body(name=f"web{control}"))
    assert (refusal.code, refusal.field) == ("invalid_value", "server.name")


@pytest.mark.parametrize(
    ("hint", "said"),
    [("same_host", "must be a uuid, in lower case and with hyphens"), ("group", "no control")],
)
def test_a_text_of_another_form_is_told_its_form_in_words(hint: str, said: str) -> None:
    refusal = refusal_of(CreateBody, a_body(hints={hint: "one\ntwo"}))
    assert (refusal.code, refusal.field) == ("invalid_value", f"os:scheduler_hints.{hint}")
    assert said in refusal.message


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (CreateBody, a_body(tags=["a,b"])),
        (UserBody, {"user": {"name": "no spaces", "role": "admin", "project_id": "p"}}),
        (
            BuildBody,
            {**a_build_call(), "request_spec": {**spec_to_wire(a_spec()), "required_traits": ["a b"]}},
        ),
    ],
)
def test_a_refusal_has_no_pattern_of_the_program(schema: type[Schema], body: dict[str, Any]) -> None:
    assert "pattern" not in refusal_of(schema, body).message


@pytest.mark.parametrize("name", ["a/b", "/", ".", ".."])
@pytest.mark.parametrize(
    ("schema", "body_of"),
    [
        (CreateBody, lambda name: a_body(metadata={name: "x"})),
        (CreateBody, lambda name: a_body(tags=[name])),
        (MetadataBody, lambda name: {"metadata": {name: "x"}}),
        (ImageBody, lambda name: {"image": {"name": "i", "properties": {name: "x"}}}),
        (ExtraSpecsBody, lambda name: {"extra_specs": {name: "x"}}),
        (UserBody, lambda name: {"user": {"name": "u", "role": "member", "project_id": name}}),
        (KeypairBody, lambda name: {"keypair": {"name": name}}),
    ],
)
def test_what_no_url_can_name_is_refused(
    schema: type[Schema], body_of: Callable[[str], Any], name: str
) -> None:
    assert refusal_of(schema, body_of(name)).code == "invalid_value"


def test_hints_have_a_limit_in_all() -> None:
    refusal = refusal_of(CreateBody, a_body(hints={"note": "x" * 65_536}))
    assert (refusal.code, refusal.field) == ("too_long", "os:scheduler_hints")


def test_an_unknown_hint_is_kept() -> None:
    form = form_of(CreateBody, a_body(hints={"colour": {"deep": [1, 2.5]}}))
    assert form.hints == {"colour": {"deep": [1, 2.5]}}


def test_a_policy_and_a_query_become_part_of_the_form() -> None:
    form = form_of(CreateBody, a_body(hints={"group_policy": "affinity", "query": '["=", "$x", 1]'}))
    assert (form.policy, form.filter_query, form.hints) == (Policy.AFFINITY, '["=", "$x", 1]', {})


def test_a_query_may_be_a_list() -> None:
    form = form_of(CreateBody, a_body(hints={"query": ["not", ["=", "$x", "ä", 2**70]]}))
    assert json.loads(form.filter_query) == ["not", ["=", "$x", "ä", 2**70]]


def test_hints_stand_under_either_name() -> None:
    body = {**a_body(), "OS-SCH-HNT:scheduler_hints": {"group_policy": "affinity"}}
    assert form_of(CreateBody, body).policy is Policy.AFFINITY
    assert refusal_of(CreateBody, {**body, "os:scheduler_hints": {}}).field == "os:scheduler_hints"


PLACES = ["force_hosts", "force_nodes", "ignore_hosts", "build_near_host_ip", "cidr"]


@pytest.mark.parametrize("hint", PLACES)
def test_a_user_cannot_choose_by_host_or_address(hint: str) -> None:
    refusal = refusal_of(CreateBody, a_body(hints={hint: "10.0.0.1"}))
    assert isinstance(refusal, BadRequest)
    assert refusal.field == f"os:scheduler_hints.{hint}"


@pytest.mark.parametrize("hint", PLACES)
def test_a_parent_may_not_choose_by_host_or_address(hint: str) -> None:
    refusal = refusal_of(SelectBody, a_select(hints={hint: ["h1"]}))
    assert isinstance(refusal, Forbidden)
    assert refusal.field == f"request_spec.hints.{hint}"


HOSTS_OF = ["same_host", "different_host"]


@pytest.mark.parametrize("hint", HOSTS_OF)
def test_instances_are_named_by_one_uuid_or_by_several(hint: str) -> None:
    for value in (UUID, [UUID]):
        form = CreateBody.model_validate({**a_body(), "os:scheduler_hints": {hint: value}}).to_form("", "")
        assert form.hints == {hint: [UUID]}


@pytest.mark.parametrize("value", ["", "vm-1", [UUID, "vm-1"], [7], 7, None, {"id": UUID}, [UUID] * 129])
@pytest.mark.parametrize("hint", HOSTS_OF)
def test_instances_that_are_not_named_by_uuids_are_refused(hint: str, value: Any) -> None:
    refusal = refusal_of(CreateBody, {**a_body(), "os:scheduler_hints": {hint: value}})
    assert isinstance(refusal, BadRequest)
    assert str(refusal.field).startswith(f"os:scheduler_hints.{hint}")
    refusal = refusal_of(SelectBody, a_select(hints={hint: value}))
    assert str(refusal.field).startswith(f"request_spec.hints.{hint}")


UNSUPPORTED = ["target_cell", "different_cell"]


@pytest.mark.parametrize("value", [UUID, [UUID], "", None])
@pytest.mark.parametrize("hint", UNSUPPORTED)
def test_a_hint_that_nothing_honours_is_refused(hint: str, value: Any) -> None:
    for name in ("os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"):
        refusal = refusal_of(CreateBody, {**a_body(), name: {hint: value}})
        assert isinstance(refusal, BadRequest)
        assert (refusal.code, refusal.field) == ("hint_unsupported", f"{name}.{hint}")
    refusal = refusal_of(SelectBody, a_select(hints={hint: value}))
    assert isinstance(refusal, BadRequest)
    assert (refusal.code, refusal.field) == ("hint_unsupported", f"request_spec.hints.{hint}")


@pytest.mark.parametrize("group", [UUID, ""])
def test_a_parent_names_no_group_by_a_hint(group: str) -> None:
    refusal = refusal_of(SelectBody, a_select(hints={"group": group}))
    assert isinstance(refusal, BadRequest)
    assert (refusal.code, refusal.field) == ("hint_unsupported", "request_spec.hints.group")


# -- a parent's request spec -------------------------------------------------------------------------------

COST = CostWeighing("LeastCostScheduler", (CostFunction("fill_first_cost", -1.0),))


@pytest.mark.parametrize(
    "spec",
    [
        a_spec(),
        a_spec(image=Image("", "")),
        a_spec(weighing=COST, policy=Policy.AFFINITY, path=("z1", "z2"), time_budget_s=0.25),
        a_spec(hints={"colour": "red"}, filters=("JSONFilter",), filter_query='["="]'),
    ],
)
def test_a_spec_arrives_as_it_was_sent(spec: RequestSpec) -> None:
    body = validate(SelectBody, {"version": 1, "request_spec": spec_to_wire(spec)}, LIMITS)
    arrived = body.request_spec.to_spec()
    assert arrived == spec
    assert content_digest(arrived) == content_digest(spec)


@pytest.mark.parametrize("key", sorted(spec_to_wire(a_spec())))
def test_every_member_of_a_spec_is_needed(key: str) -> None:
    body = a_select()
    del body["request_spec"][key]
    refusal = refusal_of(SelectBody, body)
    assert (refusal.code, refusal.field) == ("missing_field", f"request_spec.{key}")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 2),
        ("request_spec.num_instances", 100_001),
        ("request_spec.num_instances", 0),
        ("request_spec.alternates", -1),
        ("request_spec.policy", "anti"),
        ("request_spec.flavor.vcpus", -1),
        ("request_spec.flavor.ram", 1.5),
        ("request_spec.flavor.disk", 2**31),
        ("request_spec.flavor.extra_specs", {"resources:VCPU": "many"}),
        ("request_spec.flavor.extra_specs", {"resources:VCPU": "-1"}),
        ("request_spec.flavor.extra_specs", {"resources:VCPU": "99999999999"}),
        ("request_spec.flavor.extra_specs", {"resources:vcpu!": "1"}),
        ("request_spec.flavor.extra_specs", {"trait:SSD": "perhaps"}),
        ("request_spec.flavor.extra_specs", {"resources1:VGPU": "many"}),
        ("request_spec.flavor.extra_specs", {"trait1:SSD": "perhaps"}),
        ("request_spec.flavor.extra_specs", {"group_policy": "apart"}),
        ("request_spec.flavor.extra_specs", {"k": 1}),
        ("request_spec.image.properties", {"k": None}),
        ("request_spec.image.properties", {str(n): "\N{GRINNING FACE}" * 255 for n in range(9)}),
        ("request_spec.flavor.extra_specs", {str(n): "x" * 255 for n in range(33)}),
        ("request_spec.filters", ["F"] * 33),
        ("request_spec.filter_query", "$"),
        ("request_spec.weighing", {"name": "unweighed"}),
        ("request_spec.weighing", {"name": "score"}),
        ("request_spec.weighing", {"scales": []}),
        ("request_spec.weighing", []),
        ("request_spec.weighing.scales.0.low", float("inf")),
        ("request_spec.weighing.scales.0.high", "1"),
        ("request_spec.weighing.scales.0.multiplier", None),
        ("request_spec.path", ["z"] * 17),
        ("request_spec.time_budget_s", 0),
        ("request_spec.time_budget_s", -1.0),
        ("request_spec.time_budget_s", float("inf")),
        ("request_spec.hints", {"note": "x" * 65_536}),
        ("request_spec.extra", 1),
    ],
)
def test_a_spec_outside_its_limits_is_refused(path: str, value: Any) -> None:
    refusal = refusal_of(SelectBody, changed(a_select(), path, value))
    assert isinstance(refusal, BadRequest)
    assert refusal.field.startswith(path)


# -- a parent's builds -------------------------------------------------------------------------------------


def test_builds_keep_their_order_and_entries() -> None:
    body = a_build_call(
        builds=[
            {"uuid": OTHER_UUID, "attempt": 0, "blobs": ["B", "C"]},
            {"uuid": UUID, "attempt": 3, "blobs": ["D"]},
        ]
    )
    builds = validate(BuildBody, body, LIMITS).server.to_builds("unused")
    assert [(b.uuid, b.attempt, b.blobs) for b in builds] == [
        (OTHER_UUID, 0, ("B", "C")),
        (UUID, 3, ("D",)),
    ]


def test_the_users_form_with_one_blob_is_a_build() -> None:
    server = a_server(blob="B")
    body = {"server": server, "request_spec": spec_to_wire(a_spec())}
    (build,) = validate(BuildBody, body, LIMITS).server.to_builds(UUID)
    assert (build.uuid, build.blobs, build.name) == (UUID, ("B",), "web")


@pytest.mark.parametrize("flavor", ["1", "m1", "http://zone-1/v2.1/flavors/1"])
@pytest.mark.parametrize("image", ["i", "linux", "http://zone-1/images/i"])
def test_the_users_form_may_name_what_the_request_has(flavor: str, image: str) -> None:
    server = a_server(blob="B", flavorRef=flavor, imageRef=image)
    body = {"server": server, "request_spec": spec_to_wire(a_spec())}
    assert validate(BuildBody, body, LIMITS).checked().blob == "B"


@pytest.mark.parametrize(
    ("key", "value"),
    [("flavorRef", "2"), ("flavorRef", "http://zone-1/flavors/m1"), ("imageRef", "j"), ("imageRef", "")],
)
def test_the_users_form_agrees_with_the_request(key: str, value: str) -> None:
    body = {"server": a_server(blob="B", **{key: value}), "request_spec": spec_to_wire(a_spec())}
    assert refusal_of(BuildBody, body).field == f"server.{key}"


@pytest.mark.parametrize("image", [{"imageRef": ""}, {}])
def test_the_users_form_may_have_no_image(image: dict[str, str]) -> None:
    server = {"name": "web", "flavorRef": "m1", "blob": "B", **image}
    body = {"server": server, "request_spec": spec_to_wire(a_spec(image=Image("", "")))}
    assert validate(BuildBody, body, LIMITS).checked().blob == "B"
    body["server"]["imageRef"] = "linux"
    assert refusal_of(BuildBody, body).field == "server.imageRef"


@pytest.mark.parametrize(
    ("key", "value"),
    [("uuid", UUID), ("attempt", 1), ("name", "web"), ("flavorRef", "m1"), ("imageRef", "linux")],
)
def test_builds_name_their_instances_themselves(key: str, value: Any) -> None:
    refusal = refusal_of(BuildBody, a_build_call(**{key: value}))
    assert (refusal.code, refusal.field) == ("unknown_field", f"server.{key}")


@pytest.mark.parametrize("blob", ["", "A", "no base64 at all", "A" * 200_000])
def test_a_spoilt_blob_is_left_to_the_seal(blob: str) -> None:
    body = a_build_call(builds=[{"uuid": UUID, "attempt": 1, "blobs": [blob]}])
    assert validate(BuildBody, body, LIMITS).server.to_builds("")[0].blobs == (blob,)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("server.builds", []),
        ("server.builds", [{"uuid": UUID, "attempt": 1, "blobs": ["A"]}] * 2),
        ("server.builds.0.uuid", "x"),
        ("server.builds.0.uuid", UUID.replace("0001", "000A")),
        ("server.builds.0.attempt", -1),
        ("server.builds.0.attempt", "1"),
        ("server.builds.0.blobs", []),
        ("server.builds.0.blobs", ["A"] * 17),
        ("server.builds.0.blobs.0", 5),
        ("server.hold_s", 0),
        ("server.hold_s", 3601),
        ("server.hold_s", "30"),
        ("server.reservation_id", "r1"),
        ("server.num_instances", 1),
    ],
)
def test_builds_outside_their_limits_are_refused(path: str, value: Any) -> None:
    refusal = refusal_of(BuildBody, changed(a_build_call(), path, value))
    assert refusal.field.startswith(path)


def test_a_call_has_no_more_builds_than_its_zone_takes() -> None:
    builds = [{"uuid": f"{UUID[:-3]}{n:03x}", "attempt": 1, "blobs": ["A"]} for n in range(501)]
    assert len(validate(BuildBody, a_build_call(builds=builds[1:]), LIMITS).server.to_builds("")) == 500
    refusal = refusal_of(BuildBody, a_build_call(builds=builds))
    assert (refusal.code, refusal.field) == ("too_long", "server.builds")


def test_builds_and_a_blob_exclude_each_other() -> None:
    assert refusal_of(BuildBody, a_build_call(blob="B")).field == "server.builds"
    body = a_build_call()
    del body["server"]["builds"]
    assert refusal_of(BuildBody, body).field == "server.builds"


def test_builds_need_a_reservation() -> None:
    body = a_build_call()
    del body["server"]["reservation_id"]
    assert refusal_of(BuildBody, body).field == "server.reservation_id"


def test_attempts_are_named_in_full() -> None:
    refusal = refusal_of(AttemptsBody, {"builds": [{"uuid": UUID}]})
    assert (refusal.code, refusal.field) == ("missing_field", "builds.0.attempt")


@pytest.mark.parametrize(("sizes", "is_taken"), [([1000], True), ([600, 400], True), ([600, 401], False)])
def test_a_call_names_a_thousand_builds_over_all_its_boots(sizes: list[int], is_taken: bool) -> None:
    boot = {"reservation_id": UUID, "request_spec": spec_to_wire(a_spec())}
    boots = [{**boot, "builds": [{"uuid": UUID, "attempt": n} for n in range(size)]} for size in sizes]
    body = {"boots": boots, "last": False}

    if is_taken:
        assert [len(one.builds) for one in validate(NamedBody, body, LIMITS).boots] == sizes
    else:
        refusal = refusal_of(NamedBody, body)
        assert (refusal.code, refusal.field) == ("too_long", "boots")


# -- validation of hostile bodies ends early ---------------------------------------------------------------


def peak_bytes(call: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("schema", "body", "field"),
    [
        (AttemptsBody, {"builds": [0] * 70_000}, "builds.0"),
        (BuildBody, {**a_build_call(builds=[0] * 100_000)}, "server.builds.0"),
        (ReportsBody, {"service": "s", "reports": [{}] * 2000}, "reports.0.uuid"),
        (RegisterBody, {"service": "s", "hosts": [{}] * 2000}, "hosts.0.name"),
        (BuildBody, a_build_call(**{f"k{n}": 0 for n in range(100_000)}), "server.k0"),
        (AttemptsBody, {"builds": [{f"k{n}": 0 for n in range(50_000)}]}, "builds.0.k0"),
        (BootBody, {f"k{n}": 0 for n in range(8_000)}, "k0"),
        (ImageBody, {"image": {"name": "i", "properties": {f"k{n}": 0 for n in range(500)}}}, "image"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_body_of_many_faults_is_refused_by_one_of_them(
    schema: type[Schema], body: dict[str, Any], field: str
) -> None:
    refusal = refusal_of(schema, body)
    assert refusal.field.startswith(field)
    assert peak_bytes(lambda: refusal_of(schema, body)) < 2_000_000


# -- the rest ----------------------------------------------------------------------------------------------

A_ZONE = {"name": "z", "api_url": "https://z.example/v2.1", "username": "u", "password": "p"}
A_FLAVOR = {"name": "m1", "vcpus": 1, "ram": 512, "disk": 1}
A_HOST = {"name": "h", "inventories": {"VCPU": {"total": 8}}}
A_REPORT = {"uuid": UUID, "attempt": 1, "state": "active"}
A_USER = {"name": "u", "role": "member", "project_id": "p"}


@pytest.mark.parametrize(
    ("schema", "body", "path", "value"),
    [
        (AddZoneBody, {"zone": A_ZONE}, "zone.name", ""),
        (AddZoneBody, {"zone": A_ZONE}, "zone.api_url", "x" * 2049),
        (AddZoneBody, {"zone": A_ZONE}, "zone.password", ""),
        (AddZoneBody, {"zone": A_ZONE}, "zone.weight_scale", 0),
        (AddZoneBody, {"zone": A_ZONE}, "zone.weight_scale", float("inf")),
        (AddZoneBody, {"zone": A_ZONE}, "zone.weight_offset", "1"),
        (AddZoneBody, {"zone": A_ZONE}, "zone.weight_offset", 1e300),
        (AddZoneBody, {"zone": A_ZONE}, "zone.id", UUID),
        (ChangeZoneBody, {"zone": {}}, "zone.name", None),
        (FlavorBody, {"flavor": A_FLAVOR}, "flavor.vcpus", True),
        (FlavorBody, {"flavor": A_FLAVOR}, "flavor.ram", -1),
        (FlavorBody, {"flavor": A_FLAVOR}, "flavor.id", "a/b"),
        (FlavorBody, {"flavor": A_FLAVOR}, "flavor.swap", -5),
        (FlavorBody, {"flavor": A_FLAVOR}, "flavor.extra_specs", {"resources:VCPU": "1.5"}),
        (ExtraSpecsBody, {"extra_specs": {}}, "extra_specs", {"trait:X": ""}),
        (ImageBody, {"image": {"name": "i"}}, "image.properties", {"k": []}),
        (ImageBody, {"image": {"name": "i"}}, "image.id", "../etc"),
        (RegisterBody, {"service": "s", "hosts": [A_HOST]}, "hosts.0.inventories", {"vcpu": {"total": 1}}),
        (RegisterBody, {"service": "s", "hosts": [A_HOST]}, "hosts.0.inventories.VCPU.total", -1),
        (RegisterBody, {"service": "s", "hosts": [A_HOST]}, "hosts.0.inventories.VCPU.step_size", 0),
        (RegisterBody, {"service": "s", "hosts": [A_HOST]}, "hosts.0.inventories.VCPU.allocation_ratio", -1),
        (RegisterBody, {"service": "s", "hosts": [A_HOST]}, "hosts.0.traits", ["has space"]),
        (RegisterBody, {"service": "s", "hosts": [A_HOST]}, "hosts.0.capabilities", {"x": "y" * 65_536}),
        (ReportsBody, {"service": "s", "reports": [A_REPORT]}, "reports.0.state", "running"),
        (ReportsBody, {"service": "s", "reports": [A_REPORT]}, "reports.0.reason", "Not A Code"),
        (UserBody, {"user": A_USER}, "user.role", "root"),
        (UserBody, {"user": A_USER}, "user.name", "a:b"),
        (UserBody, {"user": A_USER}, "user.password", ""),
        (UserBody, {"user": A_USER}, "user.project_id", ""),
        (ListQuery, {}, "limit", "-1"),
        (ListQuery, {}, "limit", "2147483648"),
        (ListQuery, {}, "limit", "1e3"),
        (ListQuery, {}, "limit", "-5"),
        (ListQuery, {}, "limit", "٣"),
        (ListQuery, {}, "status", ["ASLEEP"]),
        (ListQuery, {}, "all_tenants", "perhaps"),
        (ListQuery, {}, "deleted", "perhaps"),
        (ListQuery, {}, "changes-since", "yesterday"),
    ],
)
def test_other_bodies_name_what_is_wrong(
    schema: type[Schema], body: dict[str, Any], path: str, value: Any
) -> None:
    refusal = refusal_of(schema, changed(body, path, value))
    assert isinstance(refusal, BadRequest)
    assert refusal.field.startswith(path)


def test_what_openstacks_clients_add_to_a_flavor_is_accepted() -> None:
    extras = {
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "swap": 0,
        "rxtx_factor": 1.0,
        "os-flavor-access:is_public": True,
        "id": None,
    }
    flavor = validate(FlavorBody, {"flavor": {**A_FLAVOR, **extras}}, LIMITS).to_flavor("new")
    assert flavor == CatalogFlavor(Flavor("new", "m1", 1, 512, 1), is_public=True, description="")


def test_a_change_of_a_zone_holds_only_what_was_said() -> None:
    change = validate(ChangeZoneBody, {"zone": {"weight_offset": 5}}, LIMITS).to_change()
    assert change == ChildChange(weight_offset=5.0)


@pytest.mark.parametrize(("text", "truth"), [("1", True), ("", True), ("True", True), ("0", False)])
def test_a_truth_of_a_query_has_many_spellings(text: str, truth: bool) -> None:
    assert validate(ListQuery, {"all_tenants": text}, LIMITS).all_tenants is truth


@pytest.mark.parametrize("status", list(Status))
def test_a_list_can_be_of_any_status(status: Status) -> None:
    query = validate(ListQuery, {"status": [status.value.lower()]}, LIMITS).to_query(by_admin=False)
    assert query.statuses == (status.value,)


def test_credentials_are_not_in_what_is_printed() -> None:
    zone = validate(AddZoneBody, {"zone": {**A_ZONE, "password": "hush-hush"}}, LIMITS)
    user = validate(UserBody, {"user": {**A_USER, "password": "hush-hush"}}, LIMITS)
    assert "hush-hush" not in f"{zone!r}{zone.to_form()!r}{user!r}"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "a", UUID, "1", "\x01"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=8,
)
PATHS = [
    "server",
    "server.builds",
    "server.builds.0",
    "server.builds.0.blobs",
    "request_spec",
    "request_spec.flavor",
    "request_spec.weighing",
    "request_spec.weighing.scales.0",
    "request_spec.hints",
    "request_spec.path",
]


@given(st.sampled_from(PATHS), ANYTHING)
def test_whatever_stands_anywhere_is_read_or_refused_by_name(path: str, value: Any) -> None:
    try:
        body = validate(BuildBody, changed(a_build_call(), path, value), LIMITS)
        body.server.to_builds(UUID)
        body.request_spec.to_spec()
    except BadRequest as refusal:
        assert refusal.field.startswith(path)


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f600"])
def test_free_json_has_64_kib_of_the_bytes_that_are_sent(letter: str) -> None:
    size, spare = divmod(65_536 - len(b'{"k":""}'), len(letter.encode()))
    largest = {"k": letter * size + "." * spare}
    too_large = {"k": f"{largest['k']}."}

    def body(capabilities: dict[str, Any]) -> dict[str, Any]:
        return {"service": "s", "hosts": [{**A_HOST, "capabilities": capabilities}]}

    assert len(orjson.dumps(largest)) == 65_536
    assert validate(RegisterBody, body(largest), LIMITS).hosts[0].capabilities == largest
    with pytest.raises(BadRequest) as refused:
        validate(RegisterBody, body(too_large), LIMITS)
    assert (refused.value.code, refused.value.field) == ("too_long", "hosts.0.capabilities")


def test_a_query_that_is_a_list_has_as_many_characters_as_its_text() -> None:
    longest = "é" * (16_384 - len('["=", "$free_ram_mb", ""]'))
    query = ["=", "$free_ram_mb", longest]

    def filter_query(given: object) -> str:
        body = {**a_body(), "os:scheduler_hints": {"query": given}}
        return CreateBody.model_validate(body).to_form("", "").filter_query

    assert json.loads(filter_query(query)) == query
    with pytest.raises(BadRequest):
        validate(CreateBody, {**a_body(), "os:scheduler_hints": {"query": [*query, ""]}}, LIMITS)


@pytest.mark.parametrize("text", ["1_0", " 10", "\u0663", "nan", "inf", "0", "many"])
def test_a_time_budget_is_a_number_in_digits(text: str) -> None:
    assert refusal_of(ReportedAuditQuery, {"budget_s": text}).field == "budget_s"
