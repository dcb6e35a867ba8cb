"""Private servers for tests: each in a folder of its own, on ports of its own, ended with its block.

A server that is not installed skips the test with that reason; where `ZONESCHED_TEST_SERVERS` is `required`,
as in .ci/run, it fails instead.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tests.builders.real_processes import eventually, free_port

PROGRAM_FOLDERS = os.pathsep.join(
    (
        "/usr/lib/rabbitmq/bin",
        *(str(folder) for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"))),
        os.environ.get("PATH", ""),
    )
)


class Server:
    """One server that can be killed, started again on its own files, and stopped as if it hung."""

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str], port: int) -> None:
        self.port = port
        self._command = command
        self._folder = folder
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._env, stdout=log, stderr=log, start_new_session=True
            )
        eventually(f"{self._command[0]} listens", self.listens, timeout_s=120)

    def kill(self) -> None:
        """End it at once, with all that it started."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def hang(self) -> None:
        """Let it take connections and answer nothing."""
        assert self._process is not None
        group = self._process.pid
        os.killpg(group, signal.SIGSTOP)
        # Threads that run go on until the kernel has interrupted them, and may still answer.
        eventually("it has stopped", lambda: _is_stopped(group))

    def go_on(self) -> None:
        """End that."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGCONT)

    def control(self, *words: str) -> None:
        """Let RabbitMQ's own tool change a RabbitMQ that runs."""
        command = [program("rabbitmqctl"), "-q", *words]
        subprocess.run(command, cwd=self._folder, env=self._env, check=True, capture_output=True)

    def listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


def _is_stopped(group: int) -> bool:
    """Tell whether all threads of a process group are stopped."""
    states = set[str]()
    for path in Path("/proc").glob("[0-9]*/task/*/stat"):
        with suppress(OSError):
            # After the name, which may contain anything: state, parent, group.
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                states.add(state)
    return states <= {"T"}


def program(name: str) -> str:
    """The path of a server's program; skips the test, or fails it, where there is none."""
    found = shutil.which(name, path=PROGRAM_FOLDERS)
    if found is None:
        leave_out(f"{name} is not installed")
    return found


def leave_out(reason: str) -> NoReturn:
    """Skip the test, or fail it where none may be left out."""
    if os.environ.get("ZONESCHED_TEST_SERVERS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def rabbitmq(folder: Path) -> Iterator[Server]:
    """A broker without plugins, with its own name, ports, port mapper and cookie."""
    port, distribution_port, mapper_port = free_port(), free_port(), free_port()
    command = [program("rabbitmq-server")]
    folder.mkdir()
    (folder / "plugins").write_text("[].")
    env = {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"zonesched-{port}@localhost",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "none-either"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "no-environment"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        "ERL_EPMD_PORT": str(mapper_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        # Else the port mapper refuses to end as long as it knows of a node.
        "ERL_EPMD_RELAXED_COMMAND_CHECK": "true",
    }
    server = Server(command, folder, env, port)
    server.start()
    try:
        yield server
    finally:
        server.kill()
        # The port mapper leaves the session of the server that started it.
        subprocess.run(["epmd", "-port", str(mapper_port), "-kill"], capture_output=True)


@contextmanager
def postgresql(pem: Path, password: str) -> Iterator[Server]:
    """A PostgreSQL with the key and certificate of `pem`; the user zonesched needs the password."""
    initdb = program("initdb")
    with tempfile.TemporaryDirectory() as made:
        folder, port = Path(made), free_port()
        shutil.copy(pem, folder / "server.pem")
        (folder / "password").write_text(password)
        as_nobody: list[str] = []
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, "nobody")
            as_nobody = [program("setpriv"), "--reuid=nobody", "--clear-groups"]
        (folder / "server.pem").chmod(0o600)
        data = str(folder / "data")
        made_by = ["-D", data, "-U", "zonesched", "-A", "scram-sha-256", "--no-sync", "--locale=C.UTF-8"]
        subprocess.run(
            [*as_nobody, initdb, *made_by, f"--pwfile={folder / 'password'}"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        settings = {
            "port": str(port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "ssl": "on",
            "ssl_cert_file": str(folder / "server.pem"),
            "ssl_key_file": str(folder / "server.pem"),
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        server = Server(
            [*as_nobody, str(Path(initdb).parent / "postgres"), "-D", data, *options], folder, {}, port
        )
        server.start()
        # It listens before it takes connections.
        is_ready = [str(Path(initdb).parent / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        eventually("PostgreSQL is ready", lambda: subprocess.run(is_ready).returncode == 0, timeout_s=120)
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def redis(folder: Path, pem: Path | None = None, password: str = "") -> Iterator[Server]:
    """A Redis that keeps nothing on disk; with `pem`, a key and its certificate, it speaks TLS alone."""
    port = free_port()
    folder.mkdir()
    plain = ["--port", str(port)]
    tls = ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"]
    command = [
        program("redis-server"),
        *(plain if pem is None else [*tls, "--tls-cert-file", str(pem), "--tls-key-file", str(pem)]),
        *(["--requirepass", password] if password else []),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    server = Server(command, folder, {}, port)
    server.start()
    try:
        yield server
    finally:
        server.go_on()
        server.kill()
