"""Bugs by which an instance runs twice, or a host takes more than it has."""

from __future__ import annotations

from benchmarks.planted.bug import Bug

NEVER_TWO_RUNNING = (
    Bug(
        name="evacuated before the fence time",
        breaks="a server runs at two places while a lost agent's lease lasts",
        path="zonesched/model/fencing.py",
        right="return fence_after_s * (1.0 + MARGIN_SHARE) + MARGIN_S",
        wrong="return 0.0",
        tests=("tests/trees/test_fencing.py",),
    ),
    Bug(
        name="a lease begins again under the same term",
        breaks="a launcher that was paused starts what runs elsewhere by now",
        path="zonesched/compute/launcher.py",
        right='if lease["term"] != term or lease["until_s"] == math.inf:',
        wrong='if lease["until_s"] == math.inf:',
        tests=("tests/processes/test_fencing.py",),
    ),
)

NEVER_OVER_COMMITTED = (
    Bug(
        name="a parent's quota off by one",
        breaks="a parent has one instance more in a zone than its operator lets it have",
        path="zonesched/services/state/quotas.py",
        right="return usage.instances(tx, parent_id) + more <= limit",
        wrong="return usage.instances(tx, parent_id) + more <= limit + 1",
        tests=("tests/trees/test_parent_limits.py",),
    ),
    Bug(
        name="ratio dropped",
        breaks="a host offers its bare total, whatever its allocation ratio",
        path="zonesched/model/capacity.py",
        right="(total - reserved) * allocation_ratio + 1e-9",
        wrong="(total - reserved) + 1e-9",
        tests=("tests/zone/test_store_claims.py",),
    ),
    Bug(
        name="reserved dropped",
        breaks="what an operator keeps for the host itself is claimed too",
        path="zonesched/model/capacity.py",
        right="(total - reserved) * allocation_ratio",
        wrong="total * allocation_ratio",
        tests=("tests/zone/test_store_claims.py", "tests/trees/test_host_settings.py"),
    ),
    Bug(
        name="room counted without what is used",
        breaks="a claim takes a host beyond its capacity",
        path="zonesched/store/claims.py",
        right="max(0, capacity - used) // amount",
        wrong="capacity // amount",
        tests=("tests/zone/test_store_claims.py",),
    ),
    Bug(
        name="one resource class is enough",
        breaks="a host with room in one class takes what lacks another",
        path="zonesched/store/claims.py",
        right="{host: min(found) for host, found",
        wrong="{host: max(found) for host, found",
        tests=("tests/zone/test_store_claims.py",),
    ),
    Bug(
        name="units not looked at",
        breaks="amounts between the steps of a class are claimed",
        path="zonesched/store/claims.py",
        right="min_unit <= amount <= max_unit and amount % step_size == 0",
        wrong="min_unit <= amount <= max_unit",
        tests=("tests/zone/test_store_claims.py",),
    ),
    Bug(
        name="claims not told to the tables in memory",
        breaks="a zone goes on offering hosts that are full",
        path="zonesched/store/claims.py",
        right="touch_uses(tx, change, claimed)",
        wrong="pass",
        tests=("tests/zone/test_store_claims.py", "tests/zone/test_store_hosts.py"),
    ),
    Bug(
        name="anti-affinity off by one",
        breaks="a host gets one instance of a group too many",
        path="zonesched/services/placing/group_policy.py",
        right="if members[host_id] > limit:",
        wrong="if members[host_id] > limit + 1:",
        tests=("tests/trees/test_group_policy.py",),
    ),
    Bug(
        name="a bundle larger than its group may be on a host",
        breaks="all instances go to a host that the group allows fewer on",
        path="zonesched/scheduler/free_slots.py",
        right="hosts.group_instances + count <= limit",
        wrong="hosts.group_instances + 1 <= limit",
        tests=("tests/units/test_free_slots.py",),
    ),
    Bug(
        name="affinity's place not kept to",
        breaks="two boots of one group go to two hosts",
        path="zonesched/services/placing/group_policy.py",
        right="for uuid, place in wanted.items() if place != only}",
        wrong="for uuid, place in wanted.items() if False}",
        tests=("tests/trees/test_group_policy.py",),
    ),
)
