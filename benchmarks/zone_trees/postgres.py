"""A PostgreSQL server of its own, on a free port and in a folder of its own; commits are durable."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .processes import StartFailed

USER = "zonesched"
UNPRIVILEGED = "nobody"
"""User that PostgreSQL runs as where the caller is root, which PostgreSQL refuses to be."""


class Postgres:
    """The server; `start` and `stop` may be called in turn as often as one likes."""

    def __init__(self, folder: Path, port: int) -> None:
        self._programs = _programs()
        self._folder = folder
        self._port = port
        folder.mkdir(parents=True)
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
            # Whoever runs it has to reach its folder.
            for above in folder.parents[:-2]:
                above.chmod(above.stat().st_mode | 0o011)
        self._run("initdb", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-locale")

    def start(self) -> None:
        """Return once it takes connections."""
        settings = f"-p {self._port} -h 127.0.0.1 -k {self._folder} -c max_connections=500"
        log = self._folder / "server.log"
        self._run("pg_ctl", "-w", "-t", "60", "-l", str(log), "-o", settings, "start")

    def stop(self, mode: str = "immediate") -> None:
        """End it; `immediate` is as a power cut would, and recovers at the next start."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def url(self, name: str) -> str:
        """The SQLAlchemy URL of a database."""
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self._port}/{name}"

    def create(self, name: str, template: str = "template0") -> None:
        """Make a database, as a copy of another one."""
        where = ["-h", "127.0.0.1", "-p", str(self._port), "-U", USER]
        self._run("createdb", *where, "-T", template, name)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        root = os.geteuid() == 0
        # A file, and not a pipe: a server that is started keeps what it is given.
        with (self._folder / "commands.log").open("ab") as log:
            done = subprocess.run(
                command,
                cwd=self._folder,
                env={**os.environ, "PGDATA": str(self._folder / "data"), "HOME": str(self._folder)},
                user=UNPRIVILEGED if root else None,
                extra_groups=[] if root else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if done.returncode:
            told = (self._folder / "commands.log").read_text(errors="replace")
            raise StartFailed(f"{program} failed\n{told[-2000:]}")


def _programs() -> Path:
    """The folder of the newest installed version's programs. Raises StartFailed."""
    found: Sequence[Path] = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    on_path = shutil.which("initdb")
    if not found and not on_path:
        raise StartFailed("PostgreSQL is not installed: its initdb is neither on the path nor in /usr/lib")
    return (found[-1] if found else Path(str(on_path))).parent


def _version(program: Path) -> int:
    return int(program.parts[-3]) if program.parts[-3].isdigit() else 0
