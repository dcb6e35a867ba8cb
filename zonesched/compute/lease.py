"""Lease of an agent: until when instances may run on its machine without another answer of its zone.

The lease of the process driver is a file, for those that may outlive the agent: the launcher of an instance,
and the watchdog that ends all instances.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

from zonesched.compute import process_table

FILE = "lease.json"


@dataclass(frozen=True)
class Lease:
    """`until_s`: on the machine's clock that also counts while it is suspended; infinite without fencing.

    `term` is another one after a lease has run out: what was to be started in an earlier term never is.
    """

    term: int = 0
    until_s: float = math.inf

    def is_held(self, now_s: float) -> bool:
        """Tell whether instances may run."""
        return now_s < self.until_s


def read(root: Path) -> Lease:
    """Read the lease in a folder.

    Without one nobody fences. One of an earlier boot has run out, and so has one that cannot be read.
    """
    try:
        found = json.loads((root / FILE).read_text(encoding="utf-8"))
        term, until_s, boot_id = int(found["term"]), float(found["until_s"]), found["boot_id"]
    except FileNotFoundError:
        return Lease()
    except (KeyError, OverflowError, TypeError, ValueError):
        return Lease(until_s=-math.inf)
    is_of_this_boot = until_s == math.inf or boot_id == process_table.boot_id()
    return Lease(term, until_s if is_of_this_boot else -math.inf)


def write(root: Path, lease: Lease) -> None:
    """Write the lease atomically; it is on disk when this returns."""
    line = {"term": lease.term, "until_s": lease.until_s, "boot_id": process_table.boot_id()}
    path = root / FILE
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(line, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)
