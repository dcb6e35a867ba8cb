"""One attack after the other: calm, attack, recovery."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.zone_trees.processes import StartFailed, interrupts_wait

from .attack import Attack
from .condition import Condition, condition_of, grown_mb, unrecovered
from .measuring import Caller, Measuring
from .setting import Setting
from .tree import NAMES, Tree, Zone
from .verdict import Times, Verdict

CALM_KEPT = 200
"""Selects in calm by which a caller's p99 is told: the newest ones of the run."""

WARM_UP_S = 1.0
ENDS_WITHIN_S = 180.0
"""Seconds that an attacker may need to see that its time is over."""

CLEAN_UP_S = 60.0
REPEATS = 2
"""How often a late attack is measured again: it counts as late if it is late each time. Other work on the
machine makes a select late now and then, an attack that works does so every time."""


class Run:
    """Attacks on one tree; `measuring` goes on between them."""

    def __init__(
        self,
        tree: Tree,
        setting: Setting,
        seed: int,
        late_s: float,
        period_s: float,
        say: Callable[[str], None],
    ) -> None:
        self._tree = tree
        self._seed = seed
        self._late_s = late_s
        self._say = say
        self._scene = tree.folder / "scene.json"
        setting.scene.write(self._scene)
        self._callers = [
            Caller(zone, tree.zones[zone].url, *setting.victims[zone], zone != "root", tree.ca_file)
            for zone in NAMES
        ]
        self._calm: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=CALM_KEPT))
        self._measuring = Measuring(self._callers, period_s)
        time.sleep(WARM_UP_S)
        self._first = {zone.name: condition_of(zone) for zone in tree.zones.values()}

    def stop(self) -> None:
        self._measuring.stop()

    def attack(self, attack: Attack, seconds: float) -> Verdict:
        """Measure one attack, again where a select was late."""
        verdict = self._once(attack, max(seconds, attack.min_seconds), seconds)
        for _ in range(REPEATS):
            if not verdict.late or verdict.unrecovered:
                break
            self._say(f"again: {attack.name} was late: {'; '.join(verdict.late)}")
            again = self._once(attack, max(seconds, attack.min_seconds), seconds)
            verdict = replace(
                again,
                grown_mb=max(verdict.grown_mb, again.grown_mb),
                leaks=sorted({*verdict.leaks, *again.leaks}),
                broken=list(dict.fromkeys([*verdict.broken, *again.broken])),
            )
        return verdict

    def _once(self, attack: Attack, seconds: float, calm_s: float) -> Verdict:
        with _Attacker(attack, self._scene, seconds, self._seed) as attacker:
            calm_from = time.monotonic()
            time.sleep(calm_s)
            for zone, calm in self._measuring.between(calm_from, time.monotonic()).items():
                self._calm[zone].extend(calm)
            before = {zone.name: self._condition_of(zone) for zone in self._tree.zones.values()}
            began_at = time.monotonic()
            found = attacker.attack(seconds + ENDS_WITHIN_S)
            ended_at = time.monotonic()
            grown = max(grown_mb(condition) for condition in before.values())
            attacked = self._measuring.between(began_at, ended_at)
            attacker.clean_up()
        times = Times({zone: list(kept) for zone, kept in self._calm.items()}, attacked, self._late_s)
        recovering_from = time.monotonic()
        wrong = unrecovered(self._tree, before, self._callers, times.bounds(attack))
        return Verdict(
            attack,
            times,
            max(grown, max(grown_mb(condition) for condition in before.values())),
            found["answers"],
            times.late(attack),
            wrong,
            found["leaks"],
            found["broken"],
            time.monotonic() - recovering_from,
        )

    def _condition_of(self, zone: Zone) -> Condition:
        first = self._first[zone.name]
        return replace(condition_of(zone), threads=first.threads, files=first.files)


class _Attacker:
    """The process of one attack; it is killed at the end of the block."""

    def __init__(self, attack: Attack, scene: Path, seconds: float, seed: int) -> None:
        self._attack = attack
        self._command = [sys.executable, "-m", "benchmarks.attackers.process", "attack", attack.name]
        self._command += ["--scene", str(scene), "--seconds", str(seconds), "--seed", str(seed)]
        self._log = scene.parent / "attackers.log"

    def __enter__(self) -> _Attacker:
        with self._log.open("ab") as log, interrupts_wait():
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.communicate()

    def attack(self, timeout_s: float) -> Mapping[str, Any]:
        """Let it begin, and return what it found. Raises StartFailed."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()
        return self._line(timeout_s)

    def clean_up(self) -> None:
        """Wait until it has deleted what it made."""
        self._line(CLEAN_UP_S)

    def _line(self, timeout_s: float) -> Mapping[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], timeout_s)[0]:
            raise StartFailed(f"the attacker of {self._attack.name} does not end")
        line = self._process.stdout.readline()
        if not line:
            told = self._log.read_text(errors="replace").splitlines()[-20:]
            raise StartFailed("\n".join([f"the attacker of {self._attack.name} has failed", *told]))
        found: Mapping[str, Any] = json.loads(line)
        return found


def chosen(attacks: Sequence[Attack], only: Sequence[str], *, tls: bool) -> Sequence[Attack]:
    """The attacks of these names; without any, all that zones with or without TLS can be attacked by.

    Raises KeyError for an unknown name, and ValueError for an attack on TLS where there is none.
    """
    by_name = {attack.name: attack for attack in attacks}
    found = [by_name[name] for name in only] if only else [one for one in attacks if tls or not one.on_tls]
    if not tls and (missed := [attack.name for attack in found if attack.on_tls]):
        raise ValueError(missed[0])
    return found
