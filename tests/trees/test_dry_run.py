"""A dry run says what a boot would get, and leaves no trace; a recorded one can be made again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import SERVICE, a_table, some_host, some_spec
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from tests.builders.wsgi_transport import Slow
from zonesched import conf
from zonesched.cli.main import run
from zonesched.cli.session import Session
from zonesched.errors import BadRequest
from zonesched.model.request_context import RequestContext
from zonesched.scheduler.offer import OfferRequest
from zonesched.scheduler.replay import (
    Record,
    chosen,
    record_from_text,
    record_to_wire,
    recorded_options,
    replay,
    spec_to_record,
)
from zonesched.scheduler.scale import Range
from zonesched.scheduler.schedulers import Schedulers
from zonesched.scheduler.sources import merge_sources, own_source
from zonesched.store import tables

pytestmark = pytest.mark.once

FLAVOR = {"name": "small", "id": "small", "vcpus": 1, "ram": 2048, "disk": 1}


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """root (a host for 16) -> region (a host for 4) -> leaf (a host for 2)."""
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("r1", ram_mb=32768, vcpus=99), a_host("r2", ram_mb=1024)])
    tree.add("region", parent="root", hosts_=[a_host("g1", vcpus=4)])
    tree.add("leaf", parent="region", hosts_=[a_host("l1", disk_gb=2)])
    tree.poll(3)
    root.client().post("/flavors", {"flavor": FLAVOR})
    return tree


def dry(node: Node, count: int = 1, who: str = "member", **more: Any) -> Answer:
    hints = {"os:scheduler_hints": more.pop("hints")} if "hints" in more else {}
    server = {"name": "vm", "flavorRef": "small", "num_instances": count}
    return node.client(who).post("/zones/boot", {"server": server, "dry_run": True, **hints, **more})


METRIC_REQUIRED = {"metrics_weight_setting": ["load=1.0"], "metrics_required": True}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (METRIC_REQUIRED, "weigher_failed"),
        ({"weight_classes": ["tests.builders.own_plugins.BrokenWeigher"]}, "weigher_failed"),
        ({"enabled_filters": ["tests.builders.own_plugins.BrokenFilter"]}, "filter_failed"),
        ({"scheduler_driver": "tests.builders.own_plugins.RaisingScheduler"}, "weigher_failed"),
    ],
)
@pytest.mark.parametrize("more", [{}, {"record": True}])
def test_what_an_operator_configured_is_no_fault_of_the_zone(
    tmp_path: Path, options: dict[str, Any], code: str, more: dict[str, Any]
) -> None:
    # given: a host without the metric that is required, or a plugin that raises
    node = Tree(tmp_path).add("alone", hosts_=[a_host("h1"), a_host("h2")], **options)
    node.client().post("/flavors", {"flavor": FLAVOR})

    answer = dry(node, who="admin", **more)

    assert (answer.status, answer.json["serviceUnavailable"]["error_code"]) == (503, code)
    assert "h1" not in json.dumps(answer.json)


def everything(tree: Tree) -> dict[tuple[str, str], list[Any]]:
    """Every row of every zone."""
    found = {}
    for name, node in tree.nodes.items():
        for table in tables.instances.metadata.sorted_tables:
            rows = node.zone.store.read(lambda tx, t=table: [tuple(row) for row in tx.execute(sa.select(t))])
            found[name, table.name] = rows
    return found


def booted(tree: Tree, count: int) -> int:
    """Count the instances that a boot with a lower `min_count` gets."""
    root = tree.nodes["root"]
    server = {"name": "vm", "flavorRef": "small", "num_instances": count, "min_count": 1}
    made = root.client("member").post("/zones/boot", {"server": server})
    tree.settle(3)
    shown = root.client().get(f"/reservations/{made.json['reservation_id']}").json["reservation"]
    return count - int(shown["counts"].get("ERROR", 0))


@pytest.mark.parametrize(("count", "fits"), [(1, 1), (22, 22), (23, 22), (100, 22)])
def test_it_says_how_many_would_fit_and_a_boot_gets_as_many(tree: Tree, count: int, fits: int) -> None:
    answer = dry(tree.nodes["root"], count)

    assert answer.status == 200
    said = answer.json["dry_run"]
    assert (said["fits"], said["num_instances"], said["complete"]) == (fits, count, True)
    assert booted(tree, count) == fits


@pytest.mark.parametrize("who", ["member", "admin"])
@pytest.mark.parametrize("record", [False, True])
def test_it_leaves_no_trace_in_any_zone(tree: Tree, who: str, record: bool) -> None:
    before = everything(tree)

    for count in (1, 100):
        dry(tree.nodes["root"], count, who, record=record)
        dry(tree.nodes["root"], 3, who, record=record, hints={"group_policy": "affinity"})

    assert everything(tree) == before
    assert sum(sent.url.endswith("/zones/select") for sent in tree.network.sent) == (
        0 if record and who == "member" else 8
    )


def test_a_tenant_learns_a_number_and_reasons_and_no_place(tree: Tree) -> None:
    answer = dry(tree.nodes["root"], 100)

    assert answer.json == {
        "dry_run": {
            "num_instances": 100,
            "fits": 22,
            "complete": True,
            "runs_out": [
                {"filter": "MEMORY_MB", "code": "not_enough_ram"},
                {"filter": "DISK_GB", "code": "not_enough_disk"},
                {"filter": "VCPU", "code": "not_enough_vcpus"},
            ],
            "refused_by": ["not_enough_ram"],
        }
    }


def test_where_all_fit_nothing_has_run_out(tree: Tree) -> None:
    said = dry(tree.nodes["root"], 22).json["dry_run"]

    assert (said["runs_out"], said["refused_by"]) == ([], [])


def test_an_admin_sees_how_many_where(tree: Tree) -> None:
    said = dry(tree.nodes["root"], 100, "admin").json["dry_run"]

    (region,) = said["why"]["children"]
    assert (said["why"]["own"]["fits"], region["fits"], region["offered"]) == (16, 6, 6)
    assert said["fits"] == said["why"]["own"]["fits"] + region["fits"]
    assert said["why"]["own"]["best"][0]["host"] == "r1"


def test_a_group_fits_as_a_whole_or_not_at_all(tree: Tree) -> None:
    root = tree.nodes["root"]

    fits = [dry(root, n, hints={"group_policy": "affinity"}).json["dry_run"]["fits"] for n in (16, 17)]

    assert fits == [16, 0]


def test_a_child_that_is_late_is_missed(tree: Tree) -> None:
    tree.network.fault(tree.nodes["region"].url, Slow(delay_s=60.0))

    said = dry(tree.nodes["root"], 100).json["dry_run"]

    assert (said["fits"], said["complete"]) == (16, False)


@pytest.mark.parametrize(
    ("who", "more", "status", "field"),
    [
        ("member", {"record": True}, 403, "record"),
        ("admin", {"record": True, "dry_run": False}, 400, "record"),
        ("admin", {"dry_run": "yes"}, 400, "dry_run"),
        ("member", {"hints": {"force_hosts": "r1"}}, 400, "os:scheduler_hints.force_hosts"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    tree: Tree, who: str, more: dict[str, Any], status: int, field: str
) -> None:
    answer = dry(tree.nodes["root"], 1, who, **more)

    assert answer.status == status
    (fault,) = answer.json.values()
    assert fault["field"] == field


# -- replay ------------------------------------------------------------------------------------------------


def recorded(tree: Tree, path: Path, count: int = 100, **more: Any) -> Any:
    record = dry(tree.nodes["root"], count, "admin", record=True, **more).json["record"]
    path.write_text(json.dumps(record))
    return record


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["replay", *arguments], Session())
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize("hints", [{}, {"group_policy": "affinity"}])
@pytest.mark.parametrize("count", [1, 5, 100])
def test_a_recorded_decision_comes_out_the_same(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, hints: dict[str, str]
) -> None:
    record = recorded(tree, tmp_path / "record", count, hints=hints)
    picks = record["chosen"]["picks"]

    code, out, _ = replayed(capsys, str(tmp_path / "record"), "--json")

    assert len(picks) == (min(count, 22) if not hints else int(count < 100))
    assert not [one for one in record["chosen"]["alternates"] if one in picks]
    said = json.loads(out)
    assert (code, said["same"]) == (0, True)
    assert said["replayed"]["picks"] == picks
    assert {pick["place"] for pick in picks} <= {"r1", "region"}
    assert "blob" not in json.dumps([e for s in record["below"] for e in s["entries"] if e["place"]["blob"]])


def test_another_option_shows_the_difference(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tree, tmp_path / "record", 1)
    loose = "enabled_filters=ComputeFilter"

    code, out, _ = replayed(capsys, str(tmp_path / "record"), "-o", "ram_weight_multiplier=-1", "-o", loose)

    assert code == 0
    assert out.startswith("another choice: ")
    assert "RamFilter" in out


def test_another_funnel_to_the_same_places_is_not_called_another_choice(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tree, tmp_path / "record", 1)

    code, out, _ = replayed(capsys, str(tmp_path / "record"), "-o", "enabled_filters=ComputeFilter")

    assert code == 0
    assert out.startswith("the same places")
    assert "pick" not in out
    assert "RamFilter" in out


def test_an_option_that_may_be_set_several_times_takes_a_list(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tree, tmp_path / "record", 1)
    own = "available_filters=ComputeFilter, tests.builders.own_plugins.GpuKindFilter"

    code, out, err = replayed(
        capsys, str(tmp_path / "record"), "-o", own, "-o", "enabled_filters=GpuKindFilter"
    )

    assert (code, err) == (0, "")
    assert "GpuKindFilter" in out


def test_a_record_that_does_not_come_out_the_same_is_told(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = recorded(tree, tmp_path / "record", 1)
    record["chosen"]["picks"][0]["weight"] += 1
    (tmp_path / "record").write_text(json.dumps(record))

    assert replayed(capsys, str(tmp_path / "record"))[0] == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "its version is 2"),
        ({"record": "other"}, "it has no member"),
        ({"hosts": [{}]}, "hosts.0"),
        ({"spec": {}}, "spec"),
        ({"options": None}, "options"),
    ],
)
def test_a_file_that_is_no_record_is_refused_with_what_is_wrong(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], says: str
) -> None:
    record = recorded(tree, tmp_path / "record", 1)
    (tmp_path / "record").write_text(json.dumps({**record, **change}))

    code, _, err = replayed(capsys, str(tmp_path / "record"))

    assert code == 1
    assert "(record_invalid)" in err
    assert says in err


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", "[" * 5000])
def test_a_file_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        record_from_text(text.encode())
    assert caught.value.code == "record_invalid"


@pytest.mark.parametrize(
    ("option", "exit_code", "code"),
    [
        ("ram_weight_multiplier", 2, ""),
        ("no_such=1", 1, "config_invalid"),
        ("enabled_filters=X", 1, "config_invalid"),
    ],
)
def test_other_options_are_checked(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, exit_code: int, code: str
) -> None:
    recorded(tree, tmp_path / "record", 1)

    found, _, err = replayed(capsys, str(tmp_path / "record"), "-o", option)

    assert found == exit_code
    assert code in err


@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from(["FilterScheduler", "ChanceScheduler"]))
def test_a_record_goes_through_a_file_whole_and_any_hosts_are_chosen_again(
    seed: int, size: int, driver: str
) -> None:
    rng = random.Random(seed)
    hosts = tuple(some_host(rng, f"{number:x}f") for number in range(size))
    spec = some_spec(seed, 5)
    options = conf.load([], {"scheduler_driver": driver, "cpu_weight_multiplier": rng.uniform(-2, 2)})
    context = RequestContext("owner-1", "group-1", tried_hosts=frozenset({"0f"}))
    up = {SERVICE: True, "agent-2": False}
    table = a_table(hosts, up)
    scheduler, request = Schedulers.from_conf(options).prepare(OfferRequest(table, spec, context), {}, False)
    own = scheduler.offer(request)
    merged = merge_sources([own_source("zone", spec, own)], spec.num_instances, spec.alternates)
    record = Record(
        record="zonesched",
        version=1,
        zone_uuid="zone",
        spec=spec_to_record(spec),
        context=context,
        zone_capabilities={"tier": frozenset({"gold"})},
        child_ranges={"RAMWeigher": Range(0.1, 0.3)},
        has_children=False,
        hosts=hosts,
        services_up=up,
        children={},
        below=(),
        options=recorded_options(options),
        chosen=chosen(table, {}, request.spec, own, merged),
    )

    read = record_from_text(orjson.dumps(record_to_wire(record)))

    assert read == record
    assert replay(read, conf.load([], read.options)) == record.chosen


def test_every_option_that_schedulers_read_is_recorded() -> None:
    class Watched:
        """A configuration that notes what is read of it."""

        def __init__(self) -> None:
            self.read: set[str] = set()
            self.conf = conf.load()

        def __getitem__(self, name: str) -> Any:
            self.read.add(name)
            return self.conf[name]

        __getattr__ = __getitem__

    watched = Watched()
    Schedulers.from_conf(watched)  # type: ignore[arg-type]

    assert {"enabled_filters", "ram_weight_multiplier"} <= watched.read
    assert watched.read <= set(recorded_options(conf.load()))
    secrets = {option.name for option in conf.ALL if option.secret}
    assert secrets.isdisjoint(recorded_options(conf.load()))
