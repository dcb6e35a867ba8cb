"""Users who boot and delete all the time, and repeat each call until it was answered."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from benchmarks.zone_trees.client import ZoneClient, ZoneFault

USERS = 3
LARGEST = 6
PAUSE_S = (0.05, 0.5)
AGAIN_S = 0.3
DELETES = 0.25
"""The share of turns in which a user deletes an instance of one of its boots."""


class Load:
    """`accepted` has the size of each boot that was accepted, by its reservation."""

    def __init__(self, client: Callable[[], ZoneClient], seed: int) -> None:
        self.accepted: dict[str, int] = {}
        self.deleted: set[str] = set()
        self.refusals: list[str] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._threads = [
            threading.Thread(target=self._run, args=(client(), number, seed), daemon=True)
            for number in range(USERS)
        ]
        for thread in self._threads:
            thread.start()

    def rest(self) -> None:
        """Nothing new is asked for until `go_on`."""
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    def end(self) -> None:
        """Return once every call has been answered; zones have to be well."""
        self._over.set()
        self._goes_on.set()
        for thread in self._threads:
            thread.join()

    def _run(self, client: ZoneClient, number: int, seed: int) -> None:
        rng = random.Random(seed * 1000 + number)
        own: list[str] = []
        turn = 0
        while not self._over.is_set():
            self._goes_on.wait()
            turn += 1
            if own and rng.random() < DELETES:
                self._delete_one_of(client, rng.choice(own), rng)
            else:
                own.append(self._boot(client, f"user-{number}-{turn}", rng.randint(1, LARGEST)))
            time.sleep(rng.uniform(*PAUSE_S))

    def _boot(self, client: ZoneClient, key: str, size: int) -> str:
        form = {
            "name": key,
            "flavorRef": "small",
            "min_count": 1,
            "max_count": size,
            "return_reservation_id": True,
        }
        told = self._until_answered(client, "POST", "/servers", {"server": form}, {"Idempotency-Key": key})
        reservation_id = str(told["reservation_id"])
        with self._lock:
            self.accepted[reservation_id] = size
        return reservation_id

    def _delete_one_of(self, client: ZoneClient, reservation_id: str, rng: random.Random) -> None:
        told = self._until_answered(client, "GET", f"/reservations/{reservation_id}")
        instances = told["reservation"]["instances"]
        uuid = str(rng.choice(instances)["uuid"])
        with self._lock:
            self.deleted.add(uuid)
        self._until_answered(client, "DELETE", f"/servers/{uuid}")

    def _until_answered(
        self,
        client: ZoneClient,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, dict[str, list[dict[str, str]]]]:
        while True:
            try:
                return client.call(method, path, body, headers) or {}
            except ZoneFault as fault:
                if fault.status == 404 and method == "DELETE":
                    return {}
                if 400 <= fault.status < 500 and fault.status != 429:
                    self.refusals.append(str(fault))
                    raise
            time.sleep(AGAIN_S)
