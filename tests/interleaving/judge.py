"""Rules that hold after each schedule, by plain SQL and by the zone's own audit."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from sqlalchemy.exc import DBAPIError

from tests.builders.clock import FakeClock
from tests.interleaving.names import BOUNDED, PARENT
from tests.interleaving.played_store import written
from tests.interleaving.player import Player
from tests.interleaving.scene import Scene
from zonesched.errors import ZoneschedError
from zonesched.model.placement import BuildAnswer, BuildState
from zonesched.services.audit import audit
from zonesched.store.outages import outage

_PASSTHROUGH = """regexp_replace(passthrough, '(encrypted_user_data":")[^"]*', '\\1')"""
OUTCOME = {
    "instances": f"uuid, name, {_PASSTHROUGH}, status, reason, attempt, failed_builds, flavor_id",
    "placements": "uuid, number, caller_id, kind, host_id, child_id, state, reason, is_fetched",
    "inbound_builds": "uuid, caller_id, attempt, number, rest",
    "inventories": "host_id, resource_class, total, capacity, used, shrunk_used, agent_excess",
    "inventory_settings": "host_id, resource_class, reserved, allocation_ratio",
    "hosts": "id, name, (SELECT s.name FROM services s WHERE s.id = service_id), enabled, disabled_reason,"
    " forced_down, failed_builds, availability_zone",
    "group_places": "caller_id, group_id, host_id, child_id",
    "reservations": "id, caller_id, state, reason",
    "moves": "uuid, kind, state, reason, from_number, to_number, dest_host",
    "instance_actions": "uuid, action, number, result, reason",
    "instance_states": "uuid, generation, power, observed_generation, observed_power, moves_begun,"
    " moves_ended, told_generation, resizes_begun, resizes_confirmed, resizes_reverted, image, flavor",
    "instance_locks": "uuid, reason, by_admin",
    "named_instances": "uuid, caller_id, attempt, reservation_id",
    "unheard": "kind, id",
    "children": "name, api_url, weight_offset, weight_scale, cursor, zone_uuid, is_enabled",
    "services": "name, user_id, forced_down",
    "fencing_promises": "service_id, fence_after_s",
    "aggregates": "name, metadata",
    "aggregate_hosts": "aggregate_id, host_id",
    "flavors": "id, name, extra_specs, description",
    "flavor_projects": "flavor_id, project_id",
    "images": "id, name, properties",
    "server_groups": "name, project_id",
    "quota_overrides": "subject, name, hard_limit",
    "users": "name, explain_to_parent",
    "keypairs": "user_id, name",
    "dashboard_sessions": "user_id, is_link",
    "idle_holds": "caller_id",
    "aliases": "caller_id, uuid",
    "console_asks": "id, state",
    "found_instances": "kind, holder_id, uuid, number, host_id, status",
}
"""By table the columns that differ between two orders only if the orders mean different things: no times,
no numbers of changes, no drawn ids."""


def faults(scene: Scene, players: Sequence[Player]) -> Iterator[str]:
    """Find violated rules once all players have ended; the zones' clocks stand."""
    for player in players:
        if player.error is not None and not _is_heard(player, player.error):
            yield f"error {player.letter}: {described(player.error)}"
    if not any(player.strike for player in players):
        yield from (f"logged: {line}" for line in scene.logged.lines)
    yield from _rooms(scene.watch)
    yield from _audited(scene)
    yield from _over_quota(scene.watch)
    yield from _answers(scene.watch, players)


def _is_heard(player: Player, error: BaseException) -> bool:
    """Tell whether the error is a refusal, or that of a player who was struck and lost its connection."""
    return isinstance(error, ZoneschedError) or (player.strike is not None and outage(error) is not None)


def outcome(scene: Scene, players: Sequence[Player]) -> str:
    """Describe the rows and the answers, so that schedules with one meaning have one text."""
    rows = [scene.rows.lines(table, columns, written) for table, columns in OUTCOME.items()]
    said = [
        f"{player.letter} {described(player.error) if player.error else player.result!r}"
        for player in players
    ]
    logged = [f"logged: {line}" for line in scene.logged.lines]
    return "\n".join([*said, *logged, *(line for some in rows for line in some)])


def described(error: BaseException) -> str:
    """Describe an error by what is the same each time."""
    if isinstance(error, DBAPIError):
        return f"{type(error).__name__} {getattr(error.orig, 'sqlstate', '')} {error.orig}"
    if isinstance(error, ZoneschedError):
        return f"{type(error).__name__} {error.code}"
    return f"{type(error).__name__} {error}"


def _rooms(watch: psycopg.Connection[Any]) -> Iterator[str]:
    """P2, P3: no host above its capacity, what is in use is what is claimed, no instance on two hosts."""
    claimed: Counter[tuple[str, str]] = Counter()
    confirmed: Counter[str] = Counter()
    for uuid, host, resources, state, reason in watch.execute(
        "SELECT uuid, host_id, resources, state, reason FROM placements"
        " WHERE kind = 'host' AND state IN ('held', 'confirmed', 'parked', 'releasing')"
    ):
        for name, amount in json.loads(resources).items():
            claimed[host, name] += amount
        confirmed[uuid] += state == "confirmed" or (state, reason) == ("releasing", "shelved")
    for host, name, total, reserved, ratio, used, shrunk in watch.execute(
        "SELECT host_id, resource_class, total, reserved, allocation_ratio, used, shrunk_used"
        " FROM inventories"
    ):
        capacity = math.floor((total - reserved) * ratio + 1e-9)
        if used > max(capacity, shrunk):
            yield f"P3: {name} of host {host} is claimed to {used} of {capacity}"
        if used != claimed.pop((host, name), 0):
            yield f"P3: {name} of host {host} is {used}, which is not the sum of its claims"
    yield from (f"P3: {name} of {host} is claimed, which is not there" for host, name in claimed)
    yield from (f"P2: {uuid} is on {count} hosts" for uuid, count in confirmed.items() if count > 1)


def _audited(scene: Scene) -> Iterator[str]:
    zone = scene.zones[0]
    # Of the first moment, when nothing is overdue: loops that are not played would end that.
    clock = FakeClock()
    for found in zone.store.read(lambda tx: audit.inconsistencies(clock, zone.conf, zone.uuid, tx)):
        yield f"audit: {found.kind} of {found.subject}: {found.detail}"


def _over_quota(watch: psycopg.Connection[Any]) -> Iterator[str]:
    (count,) = watch.execute(
        "SELECT count(*) FROM instances WHERE caller_id = %s AND status <> 'DELETED'", [BOUNDED.user_id]
    ).fetchall()[0]
    if count > 1:
        yield f"quota: a parent that may have one instance has {count}"


def _answers(watch: psycopg.Connection[Any], players: Sequence[Player]) -> Iterator[str]:
    """P2: after `gone` to a parent's cancel, no place of the attempt is held or confirmed.

    Another caller's instance may have the same uuid.
    """
    states = {
        (uuid, attempt): state
        for uuid, attempt, state in watch.execute(
            "SELECT b.uuid, b.attempt, p.state FROM inbound_builds b"
            " JOIN placements p ON p.uuid = b.uuid AND p.number = b.number WHERE b.caller_id = %s",
            [PARENT.user_id],
        )
    }
    for player in players:
        if not isinstance(player.result, list):
            continue
        for answer in player.result:
            if not isinstance(answer, BuildAnswer) or (answer.uuid, answer.attempt) not in states:
                continue
            state = states[answer.uuid, answer.attempt]
            is_cancelled = (answer.state, answer.reason) == (BuildState.GONE, "cancelled")
            if is_cancelled and state in ("held", "confirmed"):
                yield f"P2 {player.letter}: {answer.uuid} was answered with gone and is {state}"
