"""Users who boot, act on servers and delete them all the time, and repeat each call until it was answered."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from benchmarks.zone_trees.client import ZoneClient, ZoneFault

from .world import FLAVORS

USERS = 3
LARGEST = 6
MOST_SERVERS = 24
"""A user with so many servers boots no more before some of them are deleted."""
USERS_PAUSE_S, ADMINS_PAUSE_S = (0.05, 0.4), (0.5, 3.0)
"""An admin who moved servers all the time would leave users none to act on."""
AGAIN_S = 0.3
BOOTS, DELETES = 0.15, 0.1
"""Shares of turns; in the others a user acts on a server, or an admin moves one."""

REFUSED = (404, 409)
"""Statuses of answers that an action may get: the server has been deleted, or its state has changed."""

Turn = Callable[[ZoneClient, random.Random, int], None]


class Load:
    """Users of the root, and the admin of each leaf.

    `accepted` has the size of each boot that was accepted, by its reservation; `acted` has the number of
    actions that were accepted, by server, and `taken` by name; `moved` has those of each leaf's admin, by
    zone and server.
    """

    def __init__(self, user: Callable[[], ZoneClient], admins: Mapping[str, ZoneClient], seed: int) -> None:
        self.accepted: dict[str, int] = {}
        self.deleted: set[str] = set()
        self.acted: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        self.moved: Counter[tuple[str, str]] = Counter()
        self.refusals: list[str] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._goes_on = threading.Event()
        self._goes_on.set()
        turns = [(user(), self._user(number), USERS_PAUSE_S) for number in range(USERS)]
        turns += [(admin, self._admin(zone), ADMINS_PAUSE_S) for zone, admin in admins.items()]
        self._threads = [
            threading.Thread(
                target=self._run, args=(client, turn, pause_s, random.Random(seed * 1000 + n)), daemon=True
            )
            for n, (client, turn, pause_s) in enumerate(turns)
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

    def _run(self, client: ZoneClient, turn: Turn, pause_s: tuple[float, float], rng: random.Random) -> None:
        number = 0
        while not self._over.is_set():
            self._goes_on.wait()
            number += 1
            turn(client, rng, number)
            time.sleep(rng.uniform(*pause_s))

    # -- a user --------------------------------------------------------------------------------------------

    def _user(self, number: int) -> Turn:
        own: list[str] = []

        def turn(client: ZoneClient, rng: random.Random, count: int) -> None:
            choice = rng.random()
            if not own or (len(own) < MOST_SERVERS and choice < BOOTS):
                own.extend(self._boot(client, f"user-{number}-{count}", rng.randint(1, LARGEST)))
            elif choice < BOOTS + DELETES:
                self._delete(client, own.pop(rng.randrange(len(own))))
            else:
                self._act(client, rng.choice(own), rng)

        return turn

    def _boot(self, client: ZoneClient, key: str, size: int) -> Sequence[str]:
        form = {
            "name": key,
            "flavorRef": FLAVORS[0]["name"],
            "min_count": 1,
            "max_count": size,
            "return_reservation_id": True,
        }
        told = self._until_answered(client, "POST", "/servers", {"server": form}, {"Idempotency-Key": key})
        reservation_id = str(told["reservation_id"])
        with self._lock:
            self.accepted[reservation_id] = size
        found = self._until_answered(client, "GET", f"/reservations/{reservation_id}")
        return [str(one["uuid"]) for one in found["reservation"]["instances"]]

    def _delete(self, client: ZoneClient, uuid: str) -> None:
        with self._lock:
            self.deleted.add(uuid)
        with suppress(ZoneFault):
            # A repeated call may find it deleted.
            self._until_answered(client, "DELETE", f"/servers/{uuid}", may_be=(404,))

    def _act(self, client: ZoneClient, uuid: str, rng: random.Random) -> None:
        server = self._until_answered(client, "GET", f"/servers/{uuid}")["server"]
        choices = _choices(server)
        if not choices:
            return
        action = rng.choice(choices)
        if self._accepts(client, uuid, action):
            with self._lock:
                self.acted[uuid] += 1
                self.taken.update(action.keys())

    # -- an admin ------------------------------------------------------------------------------------------

    def _admin(self, zone: str) -> Turn:
        def turn(client: ZoneClient, rng: random.Random, _: int) -> None:
            servers = self._until_answered(client, "GET", "/servers/detail?all_tenants=1")["servers"]
            movable = [one["id"] for one in servers if one["status"] in ("ACTIVE", "SHUTOFF")]
            if movable and self._accepts(client, uuid := str(rng.choice(movable)), {"migrate": None}):
                with self._lock:
                    self.moved[zone, uuid] += 1

        return turn

    # -- calls ---------------------------------------------------------------------------------------------

    def _accepts(self, client: ZoneClient, uuid: str, action: Mapping[str, Any]) -> bool:
        """Take an action; return whether it was accepted, perhaps at a repeated call."""
        try:
            self._until_answered(client, "POST", f"/servers/{uuid}/action", action, may_be=REFUSED)
        except ZoneFault as fault:
            if fault.status not in REFUSED:
                raise
            return False
        return True

    def _until_answered(
        self,
        client: ZoneClient,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        may_be: Sequence[int] = (),
    ) -> Mapping[str, Any]:
        """Return the answer. Raises ZoneFault for a refusal, which is noted unless its status `may_be`."""
        while True:
            try:
                return client.call(method, path, body, headers) or {}
            except ZoneFault as fault:
                if 400 <= fault.status < 500 and fault.status != 429:
                    if fault.status not in may_be:
                        self.refusals.append(str(fault))
                    raise
            time.sleep(AGAIN_S)


def _choices(server: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """List the actions that a server's status allows."""
    match server["status"]:
        case "ACTIVE":
            return [{"os-stop": None}, {"pause": None}, {"reboot": {"type": "HARD"}}, *_resizes(server)]
        case "SHUTOFF":
            return [{"os-start": None}, {"os-start": None}, *_resizes(server)]
        case "PAUSED":
            return [{"unpause": None}]
        case "VERIFY_RESIZE":
            return [{"confirmResize": None}, {"revertResize": None}]
    return []


def _resizes(server: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Make a resize twice as likely as any other action."""
    others = [one["name"] for one in FLAVORS if one["name"] != server["flavor"]["name"]]
    return [{"resize": {"flavorRef": name}} for name in others]
