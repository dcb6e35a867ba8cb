"""Which filters a request passes: what the configuration, the request and this zone's admin may say of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests

from tests.builders import own_plugins
from tests.builders.hosts import a_host as a_row
from tests.builders.hosts import a_spec, a_table, schedulers
from tests.builders.tree import Answer, Tree, a_host
from tests.builders.wsgi_transport import WsgiAdapter
from zonesched import conf
from zonesched.errors import BadRequest, ConfigError
from zonesched.filters.contract import FilterFailed
from zonesched.filters.registry import HostFilters
from zonesched.model.build_plan import FunnelStep
from zonesched.model.own_zone import OWN_HINTS, ChosenFilters
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import spec_from_row, spec_to_row, spec_to_wire
from zonesched.scheduler.base_scheduler import Offer, OfferRequest
from zonesched.services import background

pytestmark = pytest.mark.once

# -- the configuration -------------------------------------------------------------------------------------


def filters_of(folder: Path, text: str) -> HostFilters:
    """The filters of a zone with this configuration file."""
    path = folder / "zone.conf"
    path.write_text(f"[DEFAULT]\n{text}\n")
    return HostFilters.from_conf(conf.load([str(path)]))


def names_of(filters: HostFilters) -> list[str]:
    return [host_filter.name for host_filter in filters.default]


@pytest.mark.parametrize(
    "name", ["enabled_filters", "default_host_filters", "default_host_filter", "scheduler_default_filters"]
)
def test_the_enabled_filters_are_understood_under_their_older_names(tmp_path: Path, name: str) -> None:
    assert names_of(filters_of(tmp_path, f"{name} = RamFilter, JsonFilter,CoreFilter")) == [
        "RamFilter",
        "JSONFilter",
        "CoreFilter",
    ]


@pytest.mark.parametrize("name", ["available_filters", "scheduler_available_filters"])
@pytest.mark.parametrize(
    "every", ["all_filters", "standard_filters", "nova.scheduler.filters.standard_filters"]
)
def test_available_filters_are_set_one_by_one(tmp_path: Path, name: str, every: str) -> None:
    filters = filters_of(
        tmp_path,
        f"{name} = {every}\n{name} = tests.builders.own_plugins.GpuKindFilter\n"
        "enabled_filters = RamFilter,GpuKindFilter",
    )
    assert names_of(filters) == ["RamFilter", "GpuKindFilter"]
    assert {"CoreFilter", "GpuKindFilter", "tests.builders.own_plugins.GpuKindFilter"} <= filters.known.keys()


def test_weighers_are_understood_under_their_older_name(tmp_path: Path) -> None:
    path = tmp_path / "zone.conf"
    path.write_text("[DEFAULT]\nscheduler_weight_classes = RAMWeigher\n")
    assert conf.load([str(path)]).weight_classes == ["RAMWeigher"]


def test_isolated_hosts_and_images_are_understood_under_their_older_names(tmp_path: Path) -> None:
    path = tmp_path / "zone.conf"
    path.write_text("[DEFAULT]\nimage_isolated = i1,i2\nhost_isolated = h1\n")
    found = conf.load([str(path)])
    assert (found.isolated_images, found.isolated_hosts) == (["i1", "i2"], ["h1"])


def test_one_option_under_two_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two names") as refused:
        filters_of(tmp_path, "enabled_filters = RamFilter\nscheduler_default_filters = CoreFilter")
    assert refused.value.field == "enabled_filters"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("available_filters = RamFilter\nenabled_filters = RamFilter,CoreFilter", "enabled_filters"),
        ("available_filters = no.such.Filter", "available_filters"),
        ("available_filters = NoSuchFilter", "available_filters"),
        ("available_filters = tests.builders.own_plugins.W1", "available_filters"),
        ("enabled_filters = tests.builders.own_plugins.UnmakeableFilter", "enabled_filters"),
        ("available_filters = tests.builders.own_plugins.UnreturnedFilter", "available_filters"),
        ("enabled_filters = tests.builders.own_plugins.UncodedFilter", "enabled_filters"),
    ],
)
def test_a_filter_that_cannot_be_had_ends_the_start_with_its_name(
    tmp_path: Path, text: str, field: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        filters_of(tmp_path, text)
    assert refused.value.field == field
    assert text.rpartition(" ")[2].rpartition(",")[2] in refused.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("enabled_filters = nova.RamFilters", "No module named 'nova'). Did you mean RamFilter?"),
        ("enabled_filters = tests.builders.own_plugins.Nothing", "has no attribute 'Nothing'"),
        ("enabled_filters = broken_module.Filter", "(ZeroDivisionError: division by zero)."),
        (
            "available_filters = ComputeFilter\nenabled_filters = RamFilter",
            "'RamFilter' is not among available",
        ),
    ],
)
def test_a_filter_that_cannot_be_had_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError) as refused:
        filters_of(tmp_path, text)
    assert said in refused.value.message


def test_a_filter_of_an_installed_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_plugins.install(
        tmp_path,
        "[zonesched.filters]\ngpu_kind = tests.builders.own_plugins:GpuKindFilter\n"
        "broken = tests.builders.own_plugins:Nothing\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    assert names_of(filters_of(tmp_path, "enabled_filters = gpu_kind")) == ["GpuKindFilter"]
    available = filters_of(tmp_path, "available_filters = all_filters\navailable_filters = gpu_kind")
    assert available.known["gpu_kind"] is available.known["GpuKindFilter"]
    with pytest.raises(ConfigError, match=r"'broken' .* cannot be loaded"):
        filters_of(tmp_path, "enabled_filters = broken")
    with pytest.raises(
        ConfigError, match=r"Did you mean gpu_kind\? Accepted: .*, gpu_kind, or a dotted path"
    ):
        filters_of(tmp_path, "enabled_filters = gpu_kidn")


# -- the request -------------------------------------------------------------------------------------------

TABLE = a_table(
    [a_row("1f", capabilities={"gpu": 1}), a_row("2f"), a_row("3f", ram_mb=8), a_row("4f", enabled=False)]
)


def offered(spec: RequestSpec, **options: Any) -> Offer:
    return schedulers(**options).default.offer(OfferRequest(TABLE, spec))


def steps_of(offer: Offer) -> list[str]:
    return [step.filter for step in offer.why]


OWN = ["all_filters", "tests.builders.own_plugins.GpuKindFilter"]


@pytest.mark.parametrize("name", ["GpuKindFilter", "tests.builders.own_plugins.GpuKindFilter"])
def test_a_request_may_add_any_available_filter(name: str) -> None:
    offer = offered(a_spec(filters=(name,)), available_filters=OWN, enabled_filters=["ComputeFilter"])
    assert steps_of(offer) == ["ComputeFilter", "GpuKindFilter", "free_slots"]
    assert [pick.host_id for pick in offer.picks] == ["1f"]


FEW: dict[str, Any] = {"available_filters": ["ComputeFilter"], "enabled_filters": ["ComputeFilter"]}
GROUP_FILTERS = "ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter"


def test_a_filter_that_is_not_available_cannot_be_added() -> None:
    with pytest.raises(BadRequest) as refused:
        offered(a_spec(filters=("CoreFilter",)), **FEW)
    assert (refused.value.code, refused.value.field) == ("filter_unknown", "filters")
    assert str(refused.value).endswith(f"Of the built-in filters it has: ComputeFilter, {GROUP_FILTERS}.")


@pytest.mark.parametrize(
    ("asked", "field", "name"),
    [
        ({"filter_query": '["=", 1, 1]'}, "filter_query", "JSONFilter"),
        ({"hints": {"same_host": ["u1"]}}, "hints.same_host", "SameHostFilter"),
        ({"hints": {"different_host": ["u1"]}}, "hints.different_host", "DifferentHostFilter"),
        ({"hints": {"cidr": "/24"}}, "hints.cidr", "SimpleCIDRAffinityFilter"),
    ],
)
def test_what_needs_a_filter_that_is_not_available_is_refused_by_its_own_field(
    asked: dict[str, Any], field: str, name: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        offered(a_spec(**asked), **FEW)
    assert (refused.value.code, refused.value.field) == ("filter_unknown", field)
    assert refused.value.message.startswith(f"{field}: ")
    assert name in refused.value.message


def test_the_policy_of_a_group_holds_whatever_filters_are_available(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("r1"), a_host("r2")], **FEW)
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1, "disk": 1}})
    root.client().post("/os-server-groups", {"server_group": {"name": "g", "policy": "anti-affinity"}})

    placed = {*hosts_of(tree, boot(tree, {"group": "g"})), *hosts_of(tree, boot(tree, {"group": "g"}))}

    assert placed == {"r1", "r2"}


def test_a_filter_of_ones_own_takes_the_place_of_a_built_in_one_of_its_name() -> None:
    own = [*OWN, "tests.builders.own_plugins.RamFilter"]
    offer = offered(a_spec(), available_filters=own, enabled_filters=["RamFilter"])
    assert offer.why[0] == FunnelStep("RamFilter", "not_this_ram", 4, 3)


@pytest.mark.parametrize(("ratio", "left"), [(1.0, 3), (200.0, 4)])
def test_a_filter_of_the_documents_form_gets_settings(ratio: float, left: int) -> None:
    offer = offered(
        a_spec(), enabled_filters=["tests.builders.own_plugins.RoomyFilter"], ram_allocation_ratio=ratio
    )
    assert offer.why[0] == FunnelStep("RoomyFilter", "not_roomy", 4, left)


def test_a_filter_that_fails_to_check_refuses_the_request_in_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = schedulers(enabled_filters=["tests.builders.own_plugins.UncheckableFilter"]).default
    with pytest.raises(FilterFailed) as refused, caplog.at_level(logging.ERROR):
        scheduler.check(a_spec())
    assert refused.value.filter_name == "UncheckableFilter"
    assert "ZeroDivisionError" in caplog.text


def test_a_filter_that_fails_inside_a_driver_of_ones_own_is_named(caplog: pytest.LogCaptureFixture) -> None:
    options = {"scheduler_driver": "tests.builders.own_plugins.PickyScheduler"}
    with pytest.raises(FilterFailed) as refused, caplog.at_level(logging.ERROR):
        offered(a_spec(), enabled_filters=["tests.builders.own_plugins.BrokenFilter"], **options)
    assert refused.value.filter_name == "BrokenFilter"


# -- this zone's admin -------------------------------------------------------------------------------------


def test_an_admins_choice_takes_the_place_of_the_enabled_filters() -> None:
    spec = a_spec(enabled=ChosenFilters(("GpuKindFilter", "RamFilter")), filters=("CoreFilter",))
    offer = offered(spec, available_filters=OWN)
    assert steps_of(offer) == ["GpuKindFilter", "RamFilter", "CoreFilter", "free_slots"]
    assert steps_of(offered(a_spec(enabled=ChosenFilters(())))) == ["free_slots"]


def test_an_unknown_filter_of_an_admins_choice_is_refused() -> None:
    with pytest.raises(BadRequest) as refused:
        offered(a_spec(enabled=ChosenFilters(("NoFilter",))))
    assert (refused.value.code, refused.value.field) == ("filter_unknown", "enabled_filters")


def test_forced_hosts_are_asked_for_room_alone() -> None:
    hints = {"force_hosts": ["host-3f", "host-4f", "host-gone"]}
    offer = offered(a_spec(9, hints=hints))
    assert offer.why == (
        FunnelStep("force_hosts", "host_not_forced", 4, 2),
        FunnelStep("free_slots", "no_free_slots", 2, 1),
    )
    assert {pick.host_id for pick in offer.picks} == {"4f"}


def test_forced_hosts_and_nodes_are_forced_both() -> None:
    hints = {"force_hosts": ["host-1f", "host-2f"], "force_nodes": "host-2f"}
    assert [pick.host_id for pick in offered(a_spec(hints=hints)).picks] == ["2f"]


def test_forced_hosts_pass_what_the_request_itself_adds() -> None:
    hints = {"force_hosts": ["host-1f", "host-3f"]}
    offer = offered(a_spec(hints=hints, filters=("RamFilter",), enabled=ChosenFilters(("ComputeFilter",))))
    assert steps_of(offer) == ["force_hosts", "ComputeFilter", "RamFilter", "free_slots"]


def test_ignored_hosts_are_left_out() -> None:
    offer = offered(a_spec(hints={"ignore_hosts": "host-1f"}), enabled_filters=["ComputeFilter"])
    assert offer.why[:2] == (
        FunnelStep("ignore_hosts", "host_ignored", 4, 3),
        FunnelStep("ComputeFilter", "host_not_available", 3, 2),
    )
    assert offer.picks[0].host_id == "2f"


def test_names_of_hosts_are_meant_in_any_case() -> None:
    forced = offered(a_spec(hints={"force_hosts": ["HOST-1F", "Host-2f"], "force_nodes": "host-2F"}))
    ignored = offered(a_spec(hints={"ignore_hosts": "Host-1F"}), enabled_filters=["ComputeFilter"])
    assert [pick.host_id for pick in (*forced.picks, *ignored.picks)] == ["2f", "2f"]


def test_hints_of_a_network_bring_their_filter_along() -> None:
    hints = {"build_near_host_ip": "10.0.9.9", "cidr": "/16"}
    offer = offered(a_spec(hints=hints), enabled_filters=["ComputeFilter"])
    assert steps_of(offer) == ["ComputeFilter", "SimpleCIDRAffinityFilter", "free_slots"]


@pytest.mark.parametrize("names", [(), ("RamFilter",)])
def test_what_is_of_this_zone_alone_is_kept_and_never_on_the_wire(names: tuple[str, ...]) -> None:
    own = dict.fromkeys(OWN_HINTS, "10.0.0.1")
    spec = a_spec(hints={**own, "colour": "red"}, enabled=ChosenFilters(names))
    assert spec_from_row(orjson.loads(orjson.dumps(spec_to_row(spec)))) == spec
    assert spec_from_row(spec_to_row(a_spec())) == a_spec()
    wire = spec_to_wire(spec)
    assert wire["hints"] == {"colour": "red"}
    assert wire == spec_to_wire(a_spec(hints={"colour": "red"}))


# -- over HTTP, in a tree ----------------------------------------------------------------------------------


class Subscriber(WsgiAdapter):
    """A network that keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def _deliver(self, app: Any, request: requests.PreparedRequest) -> requests.Response:
        body = request.body or b""
        self.bodies.append(body.encode() if isinstance(body, str) else body)
        return super()._deliver(app, request)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A root with three hosts, and a child whose one host is the best by far."""
    grown = Tree(tmp_path, network=Subscriber())
    near = [a_host("r1", address="10.0.1.1"), a_host("r2", address="10.0.2.1"), a_host("r3", traits=["X"])]
    grown.add("root", hosts_=near)
    grown.add("leaf", parent="root", hosts_=[a_host("big", vcpus=64, ram_mb=500_000, disk_gb=9_000)])
    grown.poll()
    body = {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 1}}
    assert grown.nodes["root"].client().post("/flavors", body).status in (200, 201)
    return grown


def boot(tree: Tree, hints: Any = None, user: str = "admin", **server: Any) -> Answer:
    form = {"name": "vm", "flavorRef": "small", **server}
    body = {"server": form, **({"os:scheduler_hints": hints} if hints else {})}
    answer = tree.nodes["root"].client(user).post("/zones/boot", body)
    tree.settle()
    return answer


def hosts_of(tree: Tree, answer: Answer) -> list[str]:
    """Hosts of a boot's instances: names of the root's hosts, "" for those in the child."""
    assert answer.status == 202, answer.body
    path = f"/servers/detail?reservation_id={answer.json['reservation_id']}"
    servers = tree.nodes["root"].client().get(path).json["servers"]
    assert all(server["status"] == "BUILD" for server in servers), servers
    return sorted(server.get("OS-EXT-SRV-ATTR:host") or "" for server in servers)


def test_an_admins_boot_goes_to_the_hosts_it_forces_and_asks_no_child(tree: Tree) -> None:
    assert hosts_of(tree, boot(tree)) == [""]
    network = tree.network
    assert isinstance(network, Subscriber)
    network.bodies.clear()

    forced = boot(tree, {"force_hosts": ["r2"]}, num_instances=2)

    assert hosts_of(tree, forced) == ["r2", "r2"]
    assert not any(b"request_spec" in body for body in network.bodies)
    assert hosts_of(tree, boot(tree, {"force_nodes": "r3"})) == ["r3"]
    assert hosts_of(tree, boot(tree, {"build_near_host_ip": "10.0.1.9", "cidr": "/24"})) == ["r1"]


def test_what_an_admin_leaves_out_and_chooses_never_reaches_a_child(tree: Tree) -> None:
    # given: filters of the root that pass nothing here, and too many instances for the child alone
    network = tree.network
    assert isinstance(network, Subscriber)
    hints = {"ignore_hosts": ["r1", "r2"], "colour": "red"}
    network.bodies.clear()

    answer = boot(tree, hints, num_instances=70, enabled_filters=["ComputeFilter", "RamFilter"])

    placed = hosts_of(tree, answer)
    assert (placed.count(""), placed.count("r3"), len(placed)) == (64, 6, 70)
    told = [body for body in network.bodies if b"request_spec" in body]
    assert told and all(b"red" in body for body in told)
    for word in (b"ignore_hosts", b"r1", b"enabled", b"RamFilter"):
        assert not any(b'"%b' % word in body for body in told), word


@pytest.mark.parametrize("user", ["member"])
@pytest.mark.parametrize("hint", OWN_HINTS)
def test_only_an_admin_names_hosts(tree: Tree, user: str, hint: str) -> None:
    answer = boot(tree, {hint: "10.0.0.1"}, user)
    assert answer.status == 400
    assert answer.json["badRequest"]["error_code"] == "hint_refused"


def test_only_an_admin_chooses_filters(tree: Tree) -> None:
    answer = boot(tree, user="member", enabled_filters=["RamFilter"])
    assert answer.status == 403
    refused = answer.json["forbidden"]
    assert (refused["error_code"], refused["field"]) == ("enabled_filters_refused", "server.enabled_filters")
    unknown = boot(tree, enabled_filters=["NoFilter"])
    assert (unknown.status, unknown.json["badRequest"]["error_code"]) == (400, "filter_unknown")


NO_NAMES: list[Any] = [[], "", 5, None, {"a": 1}, ["r1", 5], ["r1"] * 1001, "x" * 256, "r1\n", ["r\u202e1"]]


@pytest.mark.parametrize("value", NO_NAMES)
def test_names_of_another_form_are_refused_by_their_hint(tree: Tree, value: Any) -> None:
    answer = boot(tree, {"force_hosts": value, "colour": "red"})
    assert answer.status == 400
    refused = answer.json["badRequest"]
    assert (refused["error_code"], refused["field"]) == ("hint_invalid", "os:scheduler_hints.force_hosts")


def test_a_filter_that_raises_ends_its_request_and_not_the_zone(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    own = ["all_filters", "tests.builders.own_plugins.BrokenFilter"]
    tree.add("root", hosts_=[a_host("r1")], available_filters=own)
    tree.nodes["root"].client().post(
        "/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1, "disk": 1}}
    )

    broken = boot(tree, filters=["BrokenFilter"])

    path = f"/reservations/{broken.json['reservation_id']}"
    shown = tree.nodes["root"].client().get(path).json["reservation"]
    assert shown["counts"] == {"ERROR": 1}
    assert shown["reasons"] == [{"code": "filter_failed", "count": 1, "refused_by": ["BrokenFilter"]}]
    server = tree.nodes["root"].client().get(f"/servers/{shown['instances'][0]['uuid']}").json["server"]
    assert server["fault"]["message"] == "A filter of this zone failed. It is BrokenFilter."
    assert hosts_of(tree, boot(tree)) == ["r1"]


@pytest.mark.parametrize("name", ["BrokenWeigher", "NanWeigher"])
def test_a_weigher_that_fails_for_all_hosts_is_not_left_out_because_there_are_children(
    tmp_path: Path, name: str
) -> None:
    # given a zone with children, none of which has a range of the weigher
    tree = Tree(tmp_path)
    path = f"tests.builders.own_plugins.{name}"
    options: dict[str, Any] = {"weight_classes": ["RAMWeigher", path]}
    root = tree.add("root", hosts_=[a_host("host-2f")], **options)
    tree.add("leaf", parent="root", hosts_=[a_host("host-2f")], **options)
    tree.poll(2)
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1, "disk": 1}})

    made = boot(tree)

    shown = root.client().get(f"/reservations/{made.json['reservation_id']}").json["reservation"]
    assert [line["code"] for line in shown["reasons"]] == ["weigher_failed"]
    assert shown["why"]["own"]["steps"] == [{"filter": path, "code": "weigher_failed"}]


def test_a_zone_says_once_which_weigher_has_no_range_in_which_child(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # given two children, in one of which a weigher fails on all hosts, and one whose report is incomplete
    tree, path = Tree(tmp_path), "tests.builders.own_plugins.BrokenWeigher"
    root = tree.add("root", weight_classes=["RAMWeigher", path, "CPUWeigher"])
    tree.add("whole", parent="root", hosts_=[a_host("w1")], weight_classes=["RAMWeigher", "CPUWeigher"])
    tree.add("broken", parent="root", hosts_=[a_host("b1")], weight_classes=["RAMWeigher", path])
    tree.add("empty", parent="root", weight_classes=["RAMWeigher"])
    part = tree.add("part", parent="root", hosts_=[a_host("p1")], weight_classes=["RAMWeigher"])
    tree.add("silent", parent="part")
    for _ in range(3):
        background.poll_children(root.zone)

    said = [r.getMessage().partition(":")[0] for r in caplog.records if "reports no range" in r.getMessage()]

    assert said == [
        f"child zone whole reports no range of {path}",
        f"child zone broken reports no range of CPUWeigher, {path}",
    ]
    assert part.client().get("/zones/info").json["zone"]["complete"] is False


@pytest.mark.parametrize("name", ["NanWeigher", "InfiniteWeigher"])
def test_a_weigher_that_gives_no_number_ends_its_request_and_not_the_zone(tmp_path: Path, name: str) -> None:
    tree = Tree(tmp_path)
    path = f"tests.builders.own_plugins.{name}"
    root = tree.add("root", hosts_=[a_host("r1"), a_host("host-2f")], weight_classes=["RAMWeigher", path])
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1, "disk": 1}})

    broken = boot(tree)

    shown = root.client().get(f"/reservations/{broken.json['reservation_id']}").json["reservation"]
    assert (shown["counts"], [line["code"] for line in shown["reasons"]]) == (
        {"ERROR": 1},
        ["weigher_failed"],
    )
    assert shown["why"]["own"]["steps"] == [{"filter": path, "code": "weigher_failed"}]
    server = root.client().get(f"/servers/{shown['instances'][0]['uuid']}").json["server"]
    said = f"A weigher, cost function or scheduler of this zone failed. It is {path}."
    assert server["fault"]["message"] == said
    assert hosts_of(tree, boot(tree, {"ignore_hosts": "host-2f"})) == ["r1"]


def test_what_no_filter_reads_keeps_no_child_from_being_asked(tmp_path: Path) -> None:
    """A tree looks at no more of a child than one flat zone with these filters."""
    tree = Tree(tmp_path)
    tree.add("root", enabled_filters=["ComputeFilter"])
    tree.add("leaf", parent="root", hosts_=[a_host("l1", zone="az1")], enabled_filters=["ComputeFilter"])
    tree.poll()
    root = tree.nodes["root"].client()
    root.post("/flavors", {"flavor": {"name": "small", "id": "small", "vcpus": 1, "ram": 512, "disk": 1}})
    specs = {"extra_specs": {"trait:CUSTOM_FAST": "required"}}
    assert root.post("/flavors/small/os-extra_specs", specs).status == 200

    form = {"name": "vm", "flavorRef": "small", "num_instances": 1, "availability_zone": "az2"}
    answer = root.post("/zones/boot", {"server": form})
    tree.settle()

    counts = root.get(f"/reservations/{answer.json['reservation_id']}").json["reservation"]["counts"]
    assert counts == {"BUILD": 1}
