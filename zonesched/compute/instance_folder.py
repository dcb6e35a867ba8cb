"""Folder of one instance of the process driver: its specification, process identity, disk and output.

lock          held by the launcher until the command runs
wanted.json   command, environment and limits, written before anything is started
process.json  the identity of its process, written by the launcher before the command runs; without its boot
              once nothing of it runs
reached.json  its last state that the driver has brought about or found; absent until it was built
leaving.json  the attempt that it moves to; there from before its stop until it is started again
fenced        there from before the watchdog ends it until it is started again
error         why the command could not be run
disk/         its working directory
output.log    its output
"""

from __future__ import annotations

import enum
import fcntl
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from zonesched.compute import instance_records as records
from zonesched.compute import process_table, removal
from zonesched.compute.desired_state import Power
from zonesched.compute.instance_records import FolderDamaged, Reached
from zonesched.compute.machine import Key
from zonesched.compute.process_table import Process
from zonesched.compute.removal import remove_tree

UNFINISHED = "unfinished."
ENDED = "ended"
"""In place of the boot in the record of a process of which nothing runs any more."""
IMAGE_VARIABLE = "ZONESCHED_IMAGE"
"""Environment variable with the name of the image."""
NAME_VARIABLE = "ZONESCHED_INSTANCE_NAME"
"""Environment variable with the name of the server."""


class Status(enum.Enum):
    """Status of an instance, by its folder and the machine's processes."""

    ABSENT = "absent"
    PREPARED = "prepared"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class InstanceFolder:
    """Folder of one instance in `root`; it may not exist."""

    def __init__(self, root: Path, key: Key) -> None:
        self.key = key
        self.path = root / f"{key.uuid}.{key.attempt}"
        self._unfinished = root / f"{UNFINISHED}{self.path.name}"
        self._copy = self._unfinished
        self._aside: list[Path] = []
        self._removing: subprocess.Popen[bytes] | None = None

    def prepare(self, wanted: Mapping[str, Any]) -> None:
        """Create the folder with its contents, atomically."""
        remove_tree(self._unfinished)
        (self._unfinished / "disk").mkdir(parents=True, mode=0o700)
        self._finish(wanted)

    def start_copy_of(self, source: Path, *, with_disk: bool) -> subprocess.Popen[bytes]:
        """Start to copy disk and output from the instance's folder on another host; else they are empty."""
        remove_tree(self._unfinished)
        (self._unfinished / "disk").mkdir(parents=True, mode=0o700)
        names = ("disk", "output.log") if with_disk else ()
        kept = [str(path) for name in names if (path := source / name).exists()]
        return _start_copy(["-t", str(self._unfinished), *(kept or [str(source / "wanted.json")])])

    def finish_copy(self, wanted: Mapping[str, Any], reached: Reached | None) -> None:
        """Complete the folder of a copied instance, atomically; `reached`: the state it is in already."""
        if reached is not None:
            records.write_reached(self._unfinished / "reached.json", reached)
        self._finish(wanted)

    def _finish(self, wanted: Mapping[str, Any]) -> None:
        (self._unfinished / "lock").touch(mode=0o600)
        records.write(self._unfinished / "wanted.json", wanted)
        self._unfinished.rename(self.path)

    def start_copy_to(self, shared: Path) -> subprocess.Popen[bytes]:
        """Start to copy the folder to where other machines reach it; `finish_copy_to` completes it."""
        shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove_unfinished_from(shared)
        # Each copy has a folder of its own: that of an agent which has died may still be written to.
        self._copy = Path(tempfile.mkdtemp(prefix=f"{self._unfinished.name}.", dir=shared))
        return _start_copy(["-T", str(self.path), str(self._copy)])

    def finish_copy_to(self, shared: Path) -> None:
        """Show the finished copy to the other machines, atomically."""
        remove_tree(shared / self.path.name)
        self._copy.rename(shared / self.path.name)

    def put_copies_aside(self, shared: Path) -> list[Path]:
        """Rename what was copied for other machines, and return what is to be removed. Raises OSError."""
        removal.put_aside(shared / self.path.name, shared / self._unfinished.name)
        return list(shared.glob(f"{self._unfinished.name}.*"))

    def _remove_unfinished_from(self, shared: Path) -> None:
        for path in shared.glob(f"{self._unfinished.name}.*"):
            remove_tree(path)

    def leaves_for(self) -> int:
        """Return the attempt that the instance moves to; 0 for none.

        Of a damaged file it is the likeliest one: the zone says which, and whether the move goes on.
        """
        try:
            return int(records.read(self.path / "leaving.json", attempt=int).get("attempt", 0))
        except FolderDamaged:
            return self.key.attempt + 1

    def note_leaving(self, attempt: int) -> None:
        """Write that it moves; it is on disk when this returns, so that no later agent runs it meanwhile."""
        records.write(self.path / "leaving.json", {"attempt": attempt})

    def note_return(self) -> None:
        """Forget that it was to move."""
        (self.path / "leaving.json").unlink(missing_ok=True)

    def was_fenced(self) -> bool:
        """Tell whether the watchdog has ended it since it was last started."""
        return (self.path / "fenced").exists()

    def note_fenced(self) -> None:
        """Write that the watchdog ends it, and that it has not ended by itself."""
        with suppress(FileNotFoundError):
            (self.path / "fenced").touch(mode=0o600)

    def status(self) -> Status:
        """Read the present status."""
        if not self.path.is_dir():
            return Status.ABSENT
        with self._locked() as is_free:
            return self._read_status() if is_free else Status.STARTING

    def process(self) -> Process | None:
        """Return its process, dead or alive; None before it was started."""
        found = records.read(self.path / "process.json", pid=int, started=int, boot_id=str)
        return Process(found["pid"], found["started"], found["boot_id"]) if found else None

    def power(self) -> Power:
        """Return the power state of its process."""
        process = self.process()
        if process is None or not process_table.is_alive(process):
            return Power.STOPPED
        return Power.PAUSED if process_table.are_paused(process) else Power.RUNNING

    def name(self) -> str:
        """Return the name of the server, as its process sees it."""
        wanted = records.read(self.path / "wanted.json", environment=dict)
        return str(wanted.get("environment", {}).get(NAME_VARIABLE, ""))

    def wanted(self) -> dict[str, Any]:
        """Read what the launcher starts. Raises FolderDamaged."""
        path = self.path / "wanted.json"
        wanted = records.read(path, command=list, environment=dict, cpus=list, ram_mb=int, disk_gb=int)
        if not wanted:
            raise FolderDamaged(path, FileNotFoundError("it is missing"))
        return wanted

    def was_not_started(self) -> bool:
        """Tell whether its command could not be run."""
        return (self.path / "error").exists()

    def was_built(self) -> bool:
        """Tell whether its command has run as wanted at least once."""
        return (self.path / "reached.json").exists()

    def reached(self) -> Reached:
        """Return its last state; before it was built, the one to start with."""
        if not self.was_built():
            return records.first_state(records.read(self.path / "wanted.json"))
        return records.read_reached(self.path / "reached.json")

    def note_reached(self, reached: Reached) -> None:
        """Write its state; it is on disk when this returns, so that no later agent repeats a reboot."""
        records.write_reached(self.path / "reached.json", reached)
        if reached.power is Power.STOPPED:
            self._note_end()

    def _note_end(self) -> None:
        """Write that nothing of its session is left: the pid may lead a session of somebody else later.

        A record stays, so that a launcher that comes late starts nothing.
        """
        process = self.process()
        if process is not None and not process_table.members(process):
            # Without room for it the record is as it was, which is right until the pid is given out again.
            with suppress(OSError):
                records.write(self.path / "process.json", {**vars(process), "boot_id": ENDED})

    def empty(self, image_name: str) -> bool:
        """Remove what an ended instance has written, and name the image that it is started with next.

        Return false while anything of it runs or is left. May be repeated at any time.
        """
        with self._locked() as is_free:
            process = self.process()
            if not is_free or (process is not None and process_table.members(process)):
                return False
            wanted = self.wanted()
            environment = {**wanted["environment"], IMAGE_VARIABLE: image_name}
            if self._removing is None and not self._aside:
                self._aside += removal.put_aside(self.path / "disk", self._unfinished)
                (self.path / "disk").mkdir(exist_ok=True, mode=0o700)
            if not self._has_removed():
                return False
            (self.path / "output.log").unlink(missing_ok=True)
            records.write(self.path / "wanted.json", {**wanted, "environment": environment})
        return True

    def newest_output(self, max_bytes: int) -> bytes:
        """Return the last bytes of its output; none where there is no file of that name."""
        # The instance can put anything in its place: a pipe would never be read to its end.
        try:
            file = os.open(self.path / "output.log", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return b""
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                return b""
            return os.pread(file, max_bytes, max(0, found.st_size - max_bytes))
        finally:
            os.close(file)

    def make_startable(self) -> None:
        """Forget the ended process, so that a launcher may start the command again."""
        with self._locked() as is_free:
            process = self.process()
            if is_free and (process is None or not process_table.members(process)):
                # The mark of a move at last: an agent that dies before takes it for one that was stopped so.
                for name in ("error", "process.json", "fenced", "leaving.json"):
                    (self.path / name).unlink(missing_ok=True)

    def remove(self) -> bool:
        """Remove the folder, so that nothing can start; return false while anything of it runs or is left."""
        return self.put_aside() and self._has_removed()

    def put_aside(self) -> bool:
        """Rename the folder, so that nothing can start; return false if anything of the instance runs."""
        if self.path.is_dir():
            with self._locked() as is_free:
                process = self.process()
                if not is_free or (process is not None and process_table.members(process)):
                    return False
                # A launcher that waits for the lock finds the folder gone, and exits.
                self._aside += removal.put_aside(self.path, self._unfinished)
        self._aside += removal.put_aside(self._unfinished, self._unfinished)
        return True

    def _has_removed(self) -> bool:
        """Tell whether what was put aside is removed; until then a process of its own removes it."""
        if self._removing is not None and self._removing.poll() is None:
            return False
        self._removing = removal.start(self._aside) if self._aside else None
        self._aside = []
        return self._removing is None

    def _read_status(self) -> Status:
        process = self.process()
        if process is None:
            return Status.PREPARED
        # A launcher whose command cannot be run lives on for a moment after it has given its lock back.
        runs = process_table.is_alive(process) and not self.was_not_started()
        return Status.RUNNING if runs else Status.ENDED

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Hold the lock for the block, unless the launcher has it; yield whether it was taken."""
        # Made anew where it is lost: the folder may come from a copy.
        with open(self.path / "lock", "a+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def _start_copy(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Copy in a process of its own: a disk may be large, and the agent has other instances."""
    return subprocess.Popen(
        ["cp", "-a", "--reflink=auto", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
