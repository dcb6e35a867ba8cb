"""Bugs of zones whose rows were put back from a copy."""

from __future__ import annotations

from benchmarks.planted.bug import Bug

_RESTORED_TESTS = ("tests/trees/test_restored_zone.py", "tests/trees/test_restored_neighbours.py")

RESTORED_ZONES = (
    Bug(
        name="entries from before a restore open",
        breaks="an entry that was used before its zone was put back from a copy is used again",
        path="zonesched/seal/keyring.py",
        right="return derive(key, incarnation.encode(), _INCARNATION_INFO) if incarnation else key",
        wrong="return key",
        tests=_RESTORED_TESTS,
    ),
    Bug(
        name="found anywhere is found where it was",
        breaks="an instance that was moved after the copy keeps its old place in the rows",
        path="zonesched/services/recovery/decision.py",
        right="return place.number == found.number and holds",
        wrong="return holds",
        tests=("tests/units/test_recovery_decision.py", *_RESTORED_TESTS),
    ),
    Bug(
        name="a child is believed of others' places",
        breaks="a lying child gets what others have from a parent that was put back from a copy",
        path="zonesched/services/recovery/decision.py",
        right="return (later or as_rows or found)[-1]",
        wrong="return found[-1]",
        tests=("tests/units/test_recovery_decision.py",),
    ),
    Bug(
        name="found nowhere and not ended",
        breaks="an instance that ended after the copy is built once more",
        path="zonesched/services/recovery/decision.py",
        right="elif one.instance.status in LIVING_STATUSES and not _is_undecided(one, zone_uuid):",
        wrong="elif False:",
        tests=("tests/units/test_recovery_decision.py", *_RESTORED_TESTS),
    ),
    Bug(
        name="adopted without claims",
        breaks="a host gives the room of an adopted instance once more",
        path="zonesched/services/recovery/settling.py",
        right="if isinstance(where, ClaimedHost) and not is_claimed:",
        wrong="if isinstance(where, ClaimedHost) and is_claimed:",
        tests=_RESTORED_TESTS,
    ),
    Bug(
        name="a restored zone works on",
        breaks="holds, boots and moves of old rows go on before anybody was heard",
        path="zonesched/services/background.py",
        right="return RESTORED_PAUSE_S if zone.restored.is_under_way else step()",
        wrong="return step()",
        tests=_RESTORED_TESTS,
    ),
    Bug(
        name="an image from below is forgotten",
        breaks="a restored parent builds a server with an image that it no longer has",
        path="zonesched/services/life/observing.py",
        right="state = replace(state, desired=replace(state.desired, image=settled.image))",
        wrong="pass",
        tests=("tests/trees/test_restored_states.py",),
    ),
    Bug(
        name="resizes taken back",
        breaks="a child forgets the flavor of a server that a restored parent has not heard of",
        path="zonesched/model/desired_call.py",
        right="if desired.resizes.lacks(before.resizes):",
        wrong="if False:",
        tests=("tests/units/test_desired_state.py",),
    ),
    Bug(
        name="a recovery ends without the states",
        breaks="an action after a restore counts as one that the copy lacks",
        path="zonesched/services/recovery/settle.py",
        right="isinstance(one, _PLACED)",
        wrong="isinstance(one, ())",
        tests=("tests/trees/test_restored_states.py",),
    ),
    Bug(
        name="a copy reclaims what was restored since",
        breaks="a zone that was put back deletes a server whose owner has restored it",
        path="zonesched/services/life/observing.py",
        right="rebuilt_by=rebuilt_by, reclaim_at=0.0)",
        wrong="rebuilt_by=rebuilt_by)",
        tests=("tests/trees/test_soft_delete.py",),
    ),
)
