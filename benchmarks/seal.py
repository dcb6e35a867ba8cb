"""Sealing and opening, microseconds per entry, in answers of many entries; prints JSON lines.

A leaf's entries hold a host; a middle zone's hold a child and its blob. Target: 6 us per entry for both ways.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from zonesched.model.build_plan import ChildBlob, EntryPlace
from zonesched.model.place import LocalPlace
from zonesched.seal.envelope import Bound, Envelope, OpenedEntry
from zonesched.seal.keyring import Keyring
from zonesched.seams import SystemClock

TARGET_US = 6.0


def measure(
    level: str, envelope: Envelope, bound: Bound, contents: Sequence[EntryPlace], rounds: int
) -> list[str]:
    """Print the median of `rounds`; the blobs of the last are given back."""
    seal_us, open_us = [], []
    blobs: list[str] = []
    for _ in range(rounds):
        started = time.perf_counter()
        blobs = envelope.seal(bound, contents)
        sealed = time.perf_counter()
        opened = envelope.open_entries(bound, blobs)
        ended = time.perf_counter()
        if [entry.place for entry in opened if isinstance(entry, OpenedEntry)] != list(contents):
            raise SystemExit("what was opened is not what was sealed")
        seal_us.append((sealed - started) * 1e6 / len(contents))
        open_us.append((ended - sealed) * 1e6 / len(contents))
    total_us = statistics.median(map(sum, zip(seal_us, open_us, strict=True)))
    line = {
        "benchmark": "seal",
        "level": level,
        "entries": len(contents),
        "blob_bytes": envelope.blob_size,
        "rounds": rounds,
        "seal_us_per_entry": round(statistics.median(seal_us), 3),
        "open_us_per_entry": round(statistics.median(open_us), 3),
        "seal_open_us_per_entry": round(total_us, 3),
        "target_us": TARGET_US,
        "reached": total_us <= TARGET_US,
    }
    print(json.dumps(line), flush=True)
    return blobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1000, help="entries per answer")
    parser.add_argument("--rounds", type=int, default=50, help="answers measured")
    arguments = parser.parse_args()
    clock = SystemClock()
    keyring = Keyring.from_conf([clock.random_bytes(32).hex()])
    bound = Bound(clock.new_uuid(), clock.new_uuid(), clock.new_uuid(), clock.random_bytes(32))
    hosts: list[EntryPlace] = [LocalPlace(clock.new_uuid()) for _ in range(arguments.entries)]
    leaf = Envelope(keyring, clock, ttl_s=60.0, blob_size=256)
    blobs = measure("leaf", leaf, bound, hosts, arguments.rounds)
    middle = Envelope(keyring, clock, ttl_s=60.0, blob_size=512)
    child_id = clock.new_uuid()
    measure("middle", middle, bound, [ChildBlob(child_id, blob) for blob in blobs], arguments.rounds)


if __name__ == "__main__":
    main()
