"""A closed loop: each client boots, waits until its boot is decided, and boots again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.zone_trees.client import ZoneClient

from .stamps import Decisions, Stamps

DECIDED_WITHIN_S = 60.0


@dataclass
class Measured:
    """The boots that began after the warming up; `waited_s` is from a call to its client's knowing.

    `seconds` is from the end of the warming up to the end of the last boot.
    """

    boots: list[Stamps] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    seconds: float = 0.0


def measure(
    clients: list[ZoneClient],
    decisions: Decisions,
    flavor_id: str,
    instances: int,
    *,
    warm_s: float,
    seconds: float,
    check: Callable[[], None],
) -> Measured:
    """Boot for `warm_s`, then measure for `seconds`, and for a boot of each client at least.

    Raises what a client met first.
    """
    began_at = time.monotonic() + warm_s
    ends_at = began_at + seconds
    found = Measured()
    lock = threading.Lock()
    faults: list[Exception] = []

    def run(client: ZoneClient) -> None:
        is_measured = False
        try:
            while ((called_at := time.monotonic()) < ends_at or not is_measured) and not faults:
                stamps = _boot(client, decisions, flavor_id, instances)
                ended_at = time.monotonic()
                if called_at >= began_at:
                    is_measured = True
                    with lock:
                        found.boots.append(stamps)
                        found.waited_s.append(ended_at - called_at)
                        found.seconds = max(found.seconds, ended_at - began_at)
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(1.0)
            check()
    if faults:
        raise faults[0]
    return found


def _boot(client: ZoneClient, decisions: Decisions, flavor_id: str, instances: int) -> Stamps:
    server = {
        "name": "vm",
        "flavorRef": flavor_id,
        "min_count": instances,
        "max_count": instances,
        "return_reservation_id": True,
    }
    told = client.call("POST", "/servers", {"server": server})
    return decisions.wait(told["reservation_id"], DECIDED_WITHIN_S)
