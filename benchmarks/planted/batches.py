"""Bugs of boots that share a transaction."""

from __future__ import annotations

from benchmarks.planted.bug import Bug

_BATCH_TESTS = ("tests/trees/test_boot_batches.py",)

BOOTS_TOGETHER = (
    Bug(
        name="one savepoint for a batch",
        breaks="a boot that fails in a batch leaves half of what it wrote",
        path="zonesched/services/boot/batch.py",
        right='run_text(tx, "ROLLBACK TO some_boots")',
        wrong="pass",
        tests=_BATCH_TESTS,
    ),
    Bug(
        name="picks of a failed commit kept",
        breaks="hosts count as used by instances that were never claimed",
        path="zonesched/services/state/host_cache.py",
        right="self._assuming.take_all_off()",
        wrong="pass",
        tests=_BATCH_TESTS,
    ),
    Bug(
        name="picks not seen by the next boot",
        breaks="the boots of a batch all want the same best host",
        path="zonesched/services/boot/batch.py",
        right="assuming.place(found.placed)",
        wrong="pass",
        tests=_BATCH_TESTS,
    ),
    Bug(
        name="claims counted on a table that was read meanwhile",
        breaks="hosts count as used twice by the same instances",
        path="zonesched/services/state/host_cache.py",
        right="if seen is None or self._ended != self._begun or claims.change <= seen.seq:",
        wrong="if seen is None:",
        tests=_BATCH_TESTS,
    ),
    Bug(
        name="others' changes taken for known",
        breaks="a zone never notices what others have claimed on a host of its own batch",
        path="zonesched/services/state/host_cache.py",
        right=" if self._has(i, n, seen)",
        wrong="",
        tests=_BATCH_TESTS,
    ),
    Bug(
        name="deleted before its batch was written",
        breaks="an instance that its user deleted is claimed and built",
        path="zonesched/services/boot/batch.py",
        right="all(present.get(uuid) == _UNPLACED for uuid in one.host_of)",
        wrong="True",
        tests=_BATCH_TESTS,
    ),
    Bug(
        name="a batch takes a host beyond its capacity",
        breaks="a boot of a batch is settled though its claim was lost",
        path="zonesched/store/claims.py",
        right="_take(tx, dict(sorted(copies_by_host.items())), dict(resources))",
        wrong="_take(tx, dict(sorted(copies_by_host.items())), dict(resources)) or True",
        tests=_BATCH_TESTS,
    ),
)
