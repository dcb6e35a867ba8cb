"""Kinds of writing transactions by which operators and owners change what a zone has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tests.builders.one_zone import AGENT, KEY, a_form
from tests.interleaving import catalog
from tests.interleaving.catalog import EMPTY, FILLED, FLAVOR, IMAGE, PERSON, PRIVATE
from tests.interleaving.names import ADMIN, CHILD, MEMBER, OWNER, PARENT, SERVER, boot_of
from tests.interleaving.scene import Scene
from zonesched.model.action_table import Action
from zonesched.model.boot_form import BootForm
from zonesched.model.desired_call import DesiredOf
from zonesched.model.desired_state import Desired
from zonesched.model.observed_state import Power
from zonesched.model.request_spec import GroupPolicy
from zonesched.model.told_instance import ToldInstance
from zonesched.model.views import ChildChange, ChildForm, ServerGroupForm, ServiceChange
from zonesched.seal.secrets import SecretBox
from zonesched.services.boot import boot
from zonesched.services.catalog import (
    dashboard_sessions,
    flavors,
    images,
    keypairs,
    quota_overrides,
    server_groups,
    users,
)
from zonesched.services.children import children, draining
from zonesched.services.hosts import aggregates, evacuation, host_settings, hosts, services
from zonesched.services.owners import actions, server_details
from zonesched.services.owners.server_details import Details
from zonesched.services.parent import desired
from zonesched.services.placing.pruning import Pruning
from zonesched.services.recovery import told_by_agents
from zonesched.services.state import stored_secrets
from zonesched.services.state.child_rows import StoredChildren
from zonesched.services.state.silences import Silences
from zonesched.services.zone import Zone
from zonesched.store import identity
from zonesched.store import services as service_rows
from zonesched.store.identity import Identity
from zonesched.store.silent_agents import LastHeartbeat

Act = Callable[[Scene, Zone, int], object]
OTHER_KEY = "bb" * 32
UNKNOWN = "11111111-1111-4111-8111-000000000099"
"""An instance that an agent has and no row."""


def _one_more(properties: Mapping[str, str], number: int) -> Mapping[str, str]:
    return {**properties, f"key-{number}": "set"}


def _flavor_spec(scene: Scene, zone: Zone, number: int) -> object:
    return flavors.set_extra_specs(zone.store, FLAVOR, {f"key-{number}": "set"})


def _flavor_spec_removed(scene: Scene, zone: Zone, number: int) -> object:
    return flavors.delete_extra_spec(zone.store, FLAVOR, "kept")


def _flavor_described(scene: Scene, zone: Zone, number: int) -> object:
    return flavors.describe(zone.store, FLAVOR, f"by {number}").description


def _flavor_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return flavors.delete(zone.store, FLAVOR)


def _flavor_shared(scene: Scene, zone: Zone, number: int) -> None:
    # The list that it returns is of its own snapshot.
    flavors.add_access(zone.store, PRIVATE, f"project-{number}")


def _private_flavor_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return flavors.delete(zone.store, PRIVATE)


def _image_property(scene: Scene, zone: Zone, number: int) -> object:
    return images.set_properties(zone.store, IMAGE, partial(_one_more, number=number)).image.properties


def _image_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return images.delete(zone.store, IMAGE)


def _group_created(scene: Scene, zone: Zone, number: int) -> None:
    form = ServerGroupForm(f"group-{number}", GroupPolicy.AFFINITY)
    server_groups.create(zone.store, zone.clock, zone.conf, OWNER, form)


def _keypair_added(scene: Scene, zone: Zone, number: int) -> None:
    keypairs.make(zone.store, zone.clock, PERSON.user_id, f"new-{number}")


def _quota_set(scene: Scene, zone: Zone, number: int) -> None:
    quota_overrides.change_project(zone.store, zone.quotas, "project-1", {"project_instances": 10 + number})


def _admin_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return users.delete(zone.store, zone.verified, catalog.ADMINS[number % 2])


def _person_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return users.delete(zone.store, zone.verified, PERSON.user_id)


def _password_set(scene: Scene, zone: Zone, number: int) -> None:
    users.set_secret(zone, PERSON.user_id, "a new password")


def _link_followed(scene: Scene, zone: Zone, number: int) -> None:
    dashboard_sessions.follow_link(zone, scene.furnished.link)


def _child_renamed(scene: Scene, zone: Zone, number: int) -> None:
    children.change(zone, CHILD, ChildChange(name=f"renamed-{number}"))


def _child_disabled(scene: Scene, zone: Zone, number: int) -> None:
    children.change(zone, CHILD, ChildChange(is_enabled=False))


def _child_added(scene: Scene, zone: Zone, number: int) -> None:
    children.add(zone, ChildForm(f"c2-{number}", "http://127.0.0.1:9/v2.1", "parent", "secret", 0.0, 1.0))


def _child_answered(scene: Scene, zone: Zone, number: int) -> object:
    stored = StoredChildren(zone.store, zone.secret_box)
    return stored.note_zones({CHILD: "44444444-4444-4444-8444-444444444444"})


def _drained(scene: Scene, zone: Zone, number: int) -> object:
    return draining.drain(zone, ADMIN, CHILD, 10).asked


def _told(scene: Scene, zone: Zone, number: int) -> object:
    power = (Power.STOPPED, Power.RUNNING)[number % 2]
    return desired.take(zone, PARENT, [DesiredOf(MEMBER, 1, Desired(2 + number, power))])


def _service(name: str, wanted: ServiceChange) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> None:
        services.change(zone, scene.host_ids[name], wanted)

    return act


def _agent_forced_down(scene: Scene, zone: Zone, number: int) -> None:
    services.change(zone, scene.furnished.idle_agent_id, ServiceChange(forced_down=True))


def _agent_removed(scene: Scene, zone: Zone, number: int) -> None:
    services.remove(zone, scene.furnished.idle_agent_id)


def _agent_registers(scene: Scene, zone: Zone, number: int) -> None:
    hosts.register(zone, AGENT, catalog.IDLE_AGENT, [a_form("h9")])


def _spare_registers(scene: Scene, zone: Zone, number: int) -> None:
    hosts.register(zone, AGENT, "spare", [a_form("h5", VCPU=3, MEMORY_MB=4000)])


def _host_taken_over(scene: Scene, zone: Zone, number: int) -> None:
    """Register a host of the agent that has been silent for long enough, as another one."""
    [spare] = [one for one in zone.store.read(service_rows.read_all).values() if one.name == "spare"]
    pause_s = zone.conf.service_down_time / 2
    zone.silences = Silences(zone.clock, pause_s)
    for _ in range(3):
        zone.silences.note(spare.id, LastHeartbeat(spare.last_seen_at))
        scene.later(zone, pause_s)
    hosts.register(zone, AGENT, f"taker-{number}", [a_form("h5", VCPU=4, MEMORY_MB=4000)])


def _agent_promises(scene: Scene, zone: Zone, number: int) -> None:
    hosts.beat(zone, AGENT, catalog.IDLE_AGENT, 30.0 + number)


def _heartbeats_written(scene: Scene, zone: Zone, number: int) -> None:
    for name in ("agent", catalog.IDLE_AGENT):
        hosts.beat(zone, AGENT, name)
    scene.later(zone, 60.0).heartbeats.write()


def _excess(scene: Scene, zone: Zone, number: int) -> object:
    amounts = {(name, "VCPU"): 1 + number for name in ("h1", "h2", "h4")}
    return hosts.note_excesses(zone.store, AGENT, "agent", amounts)


def _setting_of_removed(scene: Scene, zone: Zone, number: int) -> None:
    host_settings.change(zone, scene.host_ids["h3"], {})


def _evacuated_of_removed(scene: Scene, zone: Zone, number: int) -> object:
    return evacuation.evacuate_host(zone, ADMIN.user_id, scene.host_ids["h3"], fenced=True)


def _empty_removed(scene: Scene, zone: Zone, number: int) -> None:
    services.remove(zone, scene.host_ids["h5"])


def _empty_evacuated(scene: Scene, zone: Zone, number: int) -> object:
    return evacuation.evacuate_host(zone, ADMIN.user_id, scene.host_ids["h5"], fenced=True)


def _aggregate_named(scene: Scene, zone: Zone, number: int) -> None:
    aggregates.change(zone.store, zone.clock, zone.wake, FILLED, name=f"named-{number}")


def _aggregate_ratio(scene: Scene, zone: Zone, number: int) -> None:
    ratio = {"cpu_allocation_ratio": f"0.{5 + number}"}
    aggregates.change(zone.store, zone.clock, zone.wake, FILLED, metadata=ratio)


def _aggregate_joined(number_of: str, host: str) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> None:
        aggregates.add_host(zone.store, zone.wake, number_of, host)

    return act


def _aggregate_left(host: str) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> None:
        aggregates.remove_host(zone.store, zone.wake, FILLED, host)

    return act


def _aggregate_created(scene: Scene, zone: Zone, number: int) -> None:
    aggregates.create(zone.store, zone.clock, "new", None)


def _aggregate_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return aggregates.delete(zone.store, EMPTY)


def _renamed(scene: Scene, zone: Zone, number: int) -> None:
    def changed(before: Details) -> Details:
        return replace(before, passthrough={**before.passthrough, f"key-{number}": "set"})

    server_details.change(zone, ADMIN, SERVER, changed)


def _secrets_encrypted(scene: Scene, zone: Zone, number: int) -> object:
    me = zone.store.read(lambda tx: identity.identity(tx, Identity(zone.uuid, "")))
    return stored_secrets.encrypt_all(zone.store, SecretBox([OTHER_KEY, KEY], zone.uuid, zone.clock), me)


def _boot_stopped(scene: Scene, zone: Zone, number: int) -> object:
    return actions.act_on_boot(zone, ADMIN, boot_of(SERVER), Action.STOP)


def _agent_told(scene: Scene, zone: Zone, number: int) -> None:
    told = [ToldInstance(UNKNOWN, 1, "h1", is_built=True)]
    told_by_agents.take(zone, AGENT, "agent", told, is_first=True, is_last=True)


def _server_evacuated(scene: Scene, zone: Zone, number: int) -> object:
    return evacuation.evacuate_server(zone, ADMIN, SERVER, fenced=True)


def _pruned(scene: Scene, zone: Zone, number: int) -> object:
    return Pruning(scene.later(zone, zone.conf.ended_retention + 1)).step()


def _accepted(scene: Scene, zone: Zone, number: int) -> object:
    form = BootForm("vm", FLAVOR, IMAGE, 1, 1, idempotency_key="key", fingerprint="same")
    return boot.accept(zone, OWNER, form)


DISABLED = ServiceChange(is_enabled=False, disabled_reason="by operator")

ACTS: Mapping[str, Act] = {
    "flavor_spec": _flavor_spec,
    "flavor_spec_removed": _flavor_spec_removed,
    "flavor_described": _flavor_described,
    "flavor_deleted": _flavor_deleted,
    "flavor_shared": _flavor_shared,
    "private_flavor_deleted": _private_flavor_deleted,
    "image_property": _image_property,
    "image_deleted": _image_deleted,
    "group_created": _group_created,
    "keypair_added": _keypair_added,
    "quota_set": _quota_set,
    "admin_deleted": _admin_deleted,
    "person_deleted": _person_deleted,
    "password_set": _password_set,
    "link_followed": _link_followed,
    "child_renamed": _child_renamed,
    "child_disabled": _child_disabled,
    "child_added": _child_added,
    "child_answered": _child_answered,
    "told": _told,
    "host_disabled": _service("h1", DISABLED),
    "host_forced_down": _service("h1", ServiceChange(forced_down=True)),
    "agent_forced_down": _agent_forced_down,
    "agent_removed": _agent_removed,
    "agent_registers": _agent_registers,
    "spare_registers": _spare_registers,
    "host_taken_over": _host_taken_over,
    "agent_promises": _agent_promises,
    "heartbeats_written": _heartbeats_written,
    "excess": _excess,
    "setting_of_removed": _setting_of_removed,
    "empty_host_removed": _empty_removed,
    "empty_host_evacuated": _empty_evacuated,
    "aggregate_named": _aggregate_named,
    "aggregate_ratio": _aggregate_ratio,
    "aggregate_joined": _aggregate_joined(EMPTY, "h3"),
    "aggregate_left": _aggregate_left("h1"),
    "aggregate_left_by_empty": _aggregate_left("h5"),
    "aggregate_created": _aggregate_created,
    "aggregate_deleted": _aggregate_deleted,
    "renamed": _renamed,
    "secrets_encrypted": _secrets_encrypted,
    "pruned": _pruned,
    "boot_stopped": _boot_stopped,
    "agent_told": _agent_told,
    "accepted": _accepted,
}
"""Kinds that begin with the scene as it is, by name."""

DRAINED, EVACUATED_OF_REMOVED, SERVER_EVACUATED = _drained, _evacuated_of_removed, _server_evacuated
