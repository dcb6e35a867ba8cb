"""The writers of one process: each claims random hosts in batches until it has lost on every host."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier

from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.store import claims, identity, instances, new_placements
from zonesched.store.instances import Instance
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.store import Store, Transaction


@dataclass(frozen=True)
class Prize:
    """The prize of a race: hosts of the database at `url`, and the amounts that one instance takes."""

    url: str
    zone_uuid: str
    reservation_id: str
    host_ids: tuple[str, ...]
    resources: Mapping[str, int]
    batch: int


@dataclass(frozen=True)
class Result:
    """Work of the writers of one process; `met` counts transactions that were run again."""

    won: int
    transactions: int
    met: int
    began_at: float
    ended_at: float


class _Reruns(logging.Handler):
    """Counts what the store says of transactions that conflicted with another one."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "conflicted with another one" in record.getMessage()


def race(prize: Prize, writers: int, seed: int, start: Barrier) -> Result:
    """Run this process's writers side by side, from the moment that all processes are ready."""
    log, reruns = logging.getLogger("zonesched.store.store"), _Reruns()
    log.addHandler(reruns)
    log.setLevel(logging.DEBUG)
    store = Store.open(prize.url)
    store.read(identity.last_change)
    start.wait()
    began_at = time.time()
    with ThreadPoolExecutor(writers) as pool:
        done = list(pool.map(lambda n: _write(store, prize, random.Random(seed + n)), range(writers)))
    ended_at = time.time()
    store.close()
    won, transactions = (sum(column) for column in zip(*done, strict=True))
    return Result(won, transactions, reruns.count, began_at, ended_at)


def _write(store: Store, prize: Prize, rng: random.Random) -> tuple[int, int]:
    """Instances won, and transactions."""
    left = list(prize.host_ids)
    won = transactions = 0
    while left:
        wanted = Counter(rng.choices(left, k=prize.batch))
        uuids = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(prize.batch)]

        def fn(
            tx: Transaction, wanted: Counter[str] = wanted, uuids: Sequence[str] = uuids
        ) -> Mapping[str, int]:
            return _claim(tx, prize, wanted, uuids)

        taken = store.write(fn)
        transactions += 1
        won += sum(taken.values())
        left = [host_id for host_id in left if taken.get(host_id, 1) == wanted.get(host_id, 1)]
    return won, transactions


def _claim(tx: Transaction, prize: Prize, wanted: Counter[str], uuids: Sequence[str]) -> Mapping[str, int]:
    """Claim all hosts at once, as a boot does, and record those that had room."""
    change = identity.next_change(tx)
    taken = claims.claim(tx, change, wanted, prize.resources)
    host_of = dict(zip(uuids, (h for h, count in taken.items() for _ in range(count)), strict=False))
    instances.insert(tx, change, [_instance(prize, one) for one in host_of])
    new_placements.insert(tx, [_placement(prize, one, host_id) for one, host_id in host_of.items()])
    return taken


def _instance(prize: Prize, one: str) -> Instance:
    return Instance(
        uuid=one,
        caller_id=prize.zone_uuid,
        project_id="race",
        user_id="race",
        reservation_id=prize.reservation_id,
        position=0,
        name="vm",
        passthrough={},
        flavor_id="small",
        image_key="{}",
        group_id="",
        status=InstanceStatus.BUILD,
        reason="",
        attempt=1,
        created_at=0.0,
        updated_at=0.0,
    )


def _placement(prize: Prize, one: str, host_id: str) -> Placement:
    return Placement(
        uuid=one,
        number=1,
        caller_id=prize.zone_uuid,
        reservation_id=prize.reservation_id,
        where=ClaimedHost(host_id, prize.resources),
        state=PlacementState.CONFIRMED,
        reason="",
        hold_expires_at=0.0,
        retained_until=0.0,
    )
