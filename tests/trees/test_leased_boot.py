"""What one worker writes of a boot that it has leased."""

from __future__ import annotations

from pathlib import Path

from tests.builders.boots import FLAVOR, boot, rows
from tests.builders.tree import Tree, a_host
from zonesched.services.boot.leased_boot import LeasedBoot
from zonesched.services.boot.offers import Selected
from zonesched.services.select import select
from zonesched.services.state.boot_queue import NewBoot


def test_each_select_is_written_though_nothing_was_decided_after_the_first(tmp_path: Path) -> None:
    # given a worker of which a select found nothing, while a build failed that it may place again
    tree = Tree(tmp_path)
    client = tree.add("root", hosts_=[a_host("h1")]).client()
    assert client.post("/flavors", FLAVOR).status == 200
    boot(tree)
    zone = tree.nodes["root"].zone
    new = zone.boots.take()
    assert isinstance(new, NewBoot)
    worked_on, spec = LeasedBoot.of_new(zone, new), new.reservation.spec
    decision = select.decide(zone, spec, new.reservation.caller_id, select.BEST_HOSTS)
    worked_on.note_select(Selected(spec, decision.trace, "no_valid_host"))

    # when it selects once more, and decides
    worked_on.note_select(Selected(spec, decision.trace, "children_not_answered"))
    worked_on.write(lambda tx, change, now: None)

    # then both are counted, and the last one's reason is there
    stored = rows(tree, "root", "SELECT selects, reason FROM reservations")
    assert stored == [(2, "children_not_answered")]
    assert worked_on.reservation.selects == 2
