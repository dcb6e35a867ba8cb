"""Kinds of writing transactions: each runs one service of a zone as its callers do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.builders.one_zone import AGENT, a_form
from tests.interleaving import (
    catalog,
    child_kinds,
    leaving_kinds,
    operator_kinds,
    owner_kinds,
    process_kinds,
    restored_kinds,
    silence_kinds,
    soft_kinds,
    told_kinds,
)
from tests.interleaving.names import (
    ADMIN,
    ARRIVING,
    ASKED,
    BELOW,
    BOOT,
    BOUNDED,
    CHILD,
    DOOMED,
    FAILING,
    FRESH,
    HELD,
    HOLD_S,
    LEAVING,
    LEFT,
    MEMBER,
    NEW,
    OFFERED,
    OWNER,
    PARENT,
    PLACING,
    RESIZED,
    SERVER,
    uuid_of,
)
from tests.interleaving.scene import Prepare, Scene
from zonesched.model.action_table import Action
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.caller import Caller, Role
from zonesched.model.capacity import InventorySetting
from zonesched.model.instance_action import (
    AskedAction,
    LockServer,
    MigrateServer,
    RebuildServer,
    ResizeServer,
)
from zonesched.model.observed_state import Observed
from zonesched.model.placement import Attempt, BuildState, InstanceChange, InstanceStatus
from zonesched.model.views import InventoryForm, SettingChange
from zonesched.services.audit import repair
from zonesched.services.boot import batch, provision
from zonesched.services.children import children
from zonesched.services.children.changes import apply_changes
from zonesched.services.hosts import evacuation, host_settings, hosts, services
from zonesched.services.moves import mover
from zonesched.services.owners import actions, servers
from zonesched.services.parent import confirm
from zonesched.services.placing import build_timeouts, child_calls, reaper
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store import placements, reservations
from zonesched.store.store import Transaction

Act = Callable[[Scene, Zone, int], object]


@dataclass(frozen=True)
class Kind:
    """One kind; `damage`: statements that spoil rows before a schedule, for those who mend them.

    `prepare`: what brings about a scene of its own, by the zone's services. `looks_again`: a loop of the
    zone, which takes at its next look what others had not ended at this one.
    """

    name: str
    act: Act
    damage: Sequence[str] = ()
    prepare: Prepare | None = None
    looks_again: bool = False


def _hold(name: str) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        sent = scene.calls[name]
        return sent[number % len(sent)].hold(zone)

    return act


ATTEMPTS = [Attempt(HELD, 1), Attempt(NEW, 1)]


def _confirm(scene: Scene, zone: Zone, number: int) -> object:
    return confirm.confirm(zone, PARENT, BOOT, ATTEMPTS)


def _cancel(scene: Scene, zone: Zone, number: int) -> object:
    return confirm.cancel(zone, PARENT, BOOT, ATTEMPTS)


def _cancel_unknown(scene: Scene, zone: Zone, number: int) -> object:
    return confirm.cancel(zone, BOUNDED, uuid_of(180 + number), [Attempt(uuid_of(80 + number), 1)])


def _parent_deletes(uuid: str) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        return servers.delete(zone, PARENT, uuid, 1)

    return act


def _release(scene: Scene, zone: Zone, number: int) -> object:
    return servers.delete(zone, OWNER, FRESH)


def _reap(scene: Scene, zone: Zone, number: int) -> object:
    return reaper.reap(scene.later(zone, HOLD_S + 1))


def _boots(scene: Scene, zone: Zone, number: int) -> object:
    return provision.begin(zone, scene.new_boots[0])


def _batch(scene: Scene, zone: Zone, number: int) -> object:
    begun = batch.begin(zone, scene.new_boots)
    return [len(begun.settled), len(begun.alone), len(begun.rest)]


def _takes_over(scene: Scene, zone: Zone, number: int) -> object:
    now = scene.later(zone, zone.conf.boot_lease + 1).clock.now()
    lease = zone.store.write(lambda tx: reservations.take_lease(tx, now, zone.conf.boot_lease))
    return None if lease is None else provision.carry_on(zone, lease)


def _reports(scene: Scene, zone: Zone, number: int) -> object:
    reports = [
        AgentReport(FRESH, 1, AgentState.ACTIVE),
        AgentReport(FAILING, 1, AgentState.ERROR, "build_failed"),
        AgentReport(LEFT, 1, AgentState.GONE),
    ]
    return hosts.report(zone, AGENT, "agent", reports)


def _fetches(scene: Scene, zone: Zone, number: int) -> object:
    return len(hosts.desired(zone.store, zone.heartbeats, AGENT, "agent"))


def _moved(scene: Scene, zone: Zone, number: int) -> object:
    reports = [
        AgentReport(LEAVING, 1, AgentState.LEFT, left_for=2),
        AgentReport(ARRIVING, 2, AgentState.ACTIVE, observed=Observed()),
    ]
    return hosts.report(zone, AGENT, "agent", reports)


def _lost(scene: Scene, zone: Zone, number: int) -> object:
    reports = [
        AgentReport(SERVER, 1, AgentState.GONE),
        AgentReport(ARRIVING, 2, AgentState.ERROR, "build_failed"),
        AgentReport(LEAVING, 1, AgentState.GONE),
    ]
    return hosts.report(zone, AGENT, "agent", reports)


def _resized_lost(scene: Scene, zone: Zone, number: int) -> object:
    return hosts.report(zone, AGENT, "agent", [AgentReport(RESIZED, 2, AgentState.GONE)])


def _resized_gone(scene: Scene, zone: Zone, number: int) -> object:
    """Report what follows the end of a resize, whichever it is: one of its two places is empty."""
    reports = [AgentReport(RESIZED, 1, AgentState.GONE), AgentReport(RESIZED, 2, AgentState.ACTIVE)]
    return hosts.report(zone, AGENT, "agent", reports)


def _shrinks(scene: Scene, zone: Zone, number: int) -> object:
    forms = [a_form("h1", VCPU=2, MEMORY_MB=4000), a_form("h4", VCPU=8, MEMORY_MB=8000)]
    return hosts.register(zone, AGENT, "agent", forms)


def _units(class_name: str, total: int, **units: int) -> Act:
    """The agent's host from now on gives this class in other units than every flavor asks for."""

    def act(scene: Scene, zone: Zone, number: int) -> object:
        form = a_form("h1", VCPU=4, MEMORY_MB=4000)
        inventories = {**form.inventories, class_name: InventoryForm(total, **units)}
        return hosts.register(zone, AGENT, "agent", [replace(form, inventories=inventories)])

    return act


def _host_removed(scene: Scene, zone: Zone, number: int) -> object:
    return services.remove(zone, scene.host_ids["h3"])


def _evacuated(name: str) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        return evacuation.evacuate_host(zone, ADMIN.user_id, scene.host_ids[name], fenced=True)

    return act


def _settings(scene: Scene, zone: Zone, number: int) -> object:
    halved = SettingChange(frozenset({"allocation_ratio"}), InventorySetting(allocation_ratio=0.5))
    return host_settings.change(zone, scene.host_ids["h1"], {"VCPU": halved}).is_enabled


def _times_out(scene: Scene, zone: Zone, number: int) -> object:
    late = scene.later(zone, zone.conf.service_down_time + zone.conf.instance_build_timeout + 1)
    return build_timeouts.end_lost_builds(late)


def _unanswered(scene: Scene, zone: Zone, number: int) -> object:
    asked = zone.store.read(lambda tx: placements.read_by_uuid(tx, [ASKED]))
    return child_calls.send_confirms(zone, asked)


def _child_removed(scene: Scene, zone: Zone, number: int) -> object:
    return children.remove(zone, CHILD, force=True)


def _synced(scene: Scene, zone: Zone, number: int) -> object:
    confirmed, build = BuildState.CONFIRMED, InstanceStatus.BUILD
    items = [
        InstanceChange(BELOW, 1, InstanceStatus.ACTIVE, confirmed),
        InstanceChange(ASKED, 1, build, confirmed),
        InstanceChange(DOOMED, 1, InstanceStatus.ERROR, BuildState.FAILED, "build_failed"),
    ]

    def fn(tx: Transaction) -> bool:
        if not child_rows.is_at(tx, CHILD, ""):
            return False
        apply_changes(zone, CHILD, items, tx, given_back={})
        child_rows.set_cursor(tx, CHILD, "1")
        return True

    return zone.store.write(fn)


def _owner_deletes(*uuids: str) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        for uuid in uuids:
            servers.delete(zone, ADMIN, uuid)
        return None

    return act


def _mended(scene: Scene, zone: Zone, number: int) -> object:
    return len(repair.run(zone))


def _acts(asked: AskedAction, *uuids: str) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        for uuid in uuids:
            actions.act(zone, ADMIN, uuid, asked)
        return None

    return act


def _steps_moves(scene: Scene, zone: Zone, number: int) -> object:
    return mover.work(zone)


def _ends_moves(scene: Scene, zone: Zone, number: int) -> object:
    return mover.work(scene.later(zone, zone.conf.instance_build_timeout + 1))


def _confirms_overdue(scene: Scene, zone: Zone, number: int) -> object:
    actions.confirm_resize(zone, Caller(zone.uuid, "", Role.ADMIN, ""), RESIZED, 1)
    return None


SPOILT = ("UPDATE inventories SET used = used + 1 WHERE total IN (40, 4) AND resource_class = 'VCPU'",)

LOOK_AGAIN = leaving_kinds.LOOK_AGAIN | process_kinds.LOOK_AGAIN

_FORCED_DOWN = "UPDATE hosts SET forced_down = TRUE WHERE name = '{}'"
_EVACUATED = {"host_evacuated": "h1", "moving_evacuated": "h2", "arrivals_evacuated": "h4"}

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("hold", _hold("hold")),
        Kind("confirm", _confirm),
        Kind("cancel", _cancel),
        Kind("release", _release),
        Kind("reap", _reap, looks_again=True),
        Kind("report", _reports),
        Kind("parent_delete", _parent_deletes(HELD)),
        Kind("lease", _boots),
        Kind("lease_taken_over", _takes_over, looks_again=True),
        Kind("batch", _batch),
        Kind("quota", _hold("bounded")),
        Kind("group_together", _hold("together")),
        Kind("group_apart", _hold("apart")),
        Kind("group_join", _hold("join")),
        Kind("group_leave", _parent_deletes(MEMBER)),
        Kind("fetch", _fetches),
        Kind("inventory", _shrinks),
        Kind("min_unit", _units("VCPU", 4, min_unit=2)),
        Kind("max_unit", _units("MEMORY_MB", 4000, max_unit=100)),
        Kind("step_size", _units("MEMORY_MB", 4000, step_size=1000)),
        Kind("host_removed", _host_removed),
        *(Kind(name, _evacuated(host), (_FORCED_DOWN.format(host),)) for name, host in _EVACUATED.items()),
        Kind("setting", _settings),
        Kind("build_timeout", _times_out, looks_again=True),
        Kind("unanswered", _unanswered),
        Kind("hold_in_child", _hold("below")),
        Kind("child_removed", _child_removed),
        Kind("sync", _synced),
        Kind("delete_in_child", _owner_deletes(BELOW, ASKED, OFFERED)),
        Kind("repair", _mended, SPOILT),
        Kind("stop", _acts(Action.STOP, SERVER)),
        Kind("migrate", _acts(MigrateServer("h4"), SERVER)),
        Kind("shelve", _acts(Action.SHELVE, SERVER, PLACING, LEAVING, ARRIVING)),
        Kind("move", _steps_moves, looks_again=True),
        Kind("move_reported", _moved),
        Kind("move_lost", _lost),
        Kind("move_overdue", _ends_moves, looks_again=True),
        Kind("delete", _owner_deletes(SERVER, PLACING, LEAVING, ARRIVING)),
        Kind("lock", _acts(LockServer("kept"), SERVER)),
        Kind("rebuild", _acts(RebuildServer(catalog.OTHER_IMAGE), SERVER)),
        Kind("resize", _acts(ResizeServer(catalog.LARGE), SERVER)),
        Kind("resize_confirmed", _acts(Action.CONFIRM_RESIZE, RESIZED)),
        Kind("resize_reverted", _acts(Action.REVERT_RESIZE, RESIZED)),
        Kind("resize_confirmed_by_time", _confirms_overdue),
        Kind("resized_lost", _resized_lost),
        Kind("resized_gone", _resized_gone),
        Kind("delete_resized", _owner_deletes(RESIZED)),
        Kind("hold_on_empty", _hold("empty")),
        Kind("hold_next", _hold("next")),
        Kind("tombstone", _cancel_unknown),
        Kind("hold_of_pruned", _hold("pruned")),
        Kind(
            "drained",
            operator_kinds.DRAINED,
            (
                f"UPDATE instances SET status = 'ACTIVE' WHERE uuid = '{BELOW}'",
                "UPDATE children SET is_enabled = FALSE",
            ),
        ),
        Kind(
            "evacuated_of_removed",
            operator_kinds.EVACUATED_OF_REMOVED,
            (_FORCED_DOWN.format("h3"),),
        ),
        Kind(
            "server_evacuated",
            operator_kinds.SERVER_EVACUATED,
            (_FORCED_DOWN.format("h2"),),
        ),
        # All neighbours were heard: the end of the recovery is left.
        Kind("recovered", _mended, child_kinds.ALL_HEARD),
        *(Kind(name, act) for name, act in operator_kinds.ACTS.items()),
        *(
            Kind(name, act, damage, looks_again=name == "unshelved")
            for name, (act, damage) in {
                **child_kinds.ACTS,
                **owner_kinds.ACTS,
                **silence_kinds.ACTS,
                **restored_kinds.ACTS,
            }.items()
        ),
        *(
            Kind(name, act, prepare=prepare, looks_again=name in LOOK_AGAIN)
            for name, (act, prepare) in {
                **told_kinds.ACTS,
                **leaving_kinds.ACTS,
                **process_kinds.ACTS,
                **soft_kinds.ACTS,
            }.items()
        ),
    )
}
"""All kinds by name."""

DANGEROUS = ("hold", "confirm", "cancel", "reap", "report")
"""Kinds that are also played three at a time."""
