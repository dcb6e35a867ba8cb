"""A PostgreSQL server for one run: private, in memory as far as that goes, ended with its block."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.builders.private_servers import Server, program
from tests.builders.real_processes import eventually, free_port

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "jit": "off",
}


@contextmanager
def private_server() -> Iterator[str]:
    """Start a server; its URL."""
    initdb = program("initdb")
    with tempfile.TemporaryDirectory() as made:
        folder, port = Path(made), free_port()
        as_nobody: list[str] = []
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            shutil.chown(folder, "nobody")
            as_nobody = [program("setpriv"), "--reuid=nobody", "--clear-groups"]
        data = str(folder / "data")
        made_by = ["-D", data, "-U", "zonesched", "-A", "trust", "--no-sync", "--locale=C.UTF-8"]
        subprocess.run([*as_nobody, initdb, *made_by], cwd=folder, check=True, capture_output=True)
        settings = {"port": str(port), **SETTINGS}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        bin_folder = Path(initdb).parent
        server = Server([*as_nobody, str(bin_folder / "postgres"), "-D", data, *options], folder, {}, port)
        server.start()
        is_ready = [str(bin_folder / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        eventually("PostgreSQL is ready", lambda: subprocess.run(is_ready).returncode == 0, timeout_s=120)
        try:
            yield f"postgresql+psycopg://zonesched@127.0.0.1:{port}/postgres"
        finally:
            server.kill()
