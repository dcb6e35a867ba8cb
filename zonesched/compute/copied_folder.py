"""A copy of a state folder beside the first one, on one machine.

Its records name the processes of the first one's instances. A driver that took them for its own would end
them with the lease that was copied, while their agent keeps its own.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

from zonesched.compute import process_table
from zonesched.compute.watchdog import Records
from zonesched.errors import ConfigError

MAX_MARK_BYTES = 200

log = logging.getLogger(__name__)


def refuse(root: Path, lock: int) -> None:
    """Raise ConfigError for a copy while the instances of the first folder run; else take the folder.

    The file of the folder's lock says which file it is, on which boot of the machine: a copy is another file.
    Raises OSError.
    """
    boot, file = process_table.boot_id(), os.fstat(lock)
    mark = f"{boot} {file.st_dev}:{file.st_ino}\n".encode()
    before = os.pread(lock, MAX_MARK_BYTES, 0)
    if before == mark:
        return
    if before.startswith(boot.encode()):
        records = Records(root)
        records.read()
        if running := records.running():
            raise ConfigError(
                f"The state folder {root.parent} is a copy, and {len(running)} instances of the first one run"
                " on this machine: start the agent with the first folder. Where that is lost, remove"
                f" {root / 'agent.lock'} to take them over."
            )
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, mark, 0)
        os.fsync(lock)
    except OSError as error:
        # Mostly a full disk, on which the agent goes on. It leaves no other folder's mark.
        log.error("%s cannot be written, so that a copy of it is not known as one: %s", root, error)
        with suppress(OSError):
            os.ftruncate(lock, 0)
