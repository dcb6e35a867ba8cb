"""OpenStack's own clients, unmodified, in an environment of their own that is kept for the next run."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders.kept_packages import kept_folder, pip_install
from zonesched.cli.main import run
from zonesched.cli.session import Session
from zonesched.compute.credentials import Credentials, read_credentials
from zonesched.demo.run import DemoRun

PINNED = Path(__file__).parents[1] / "processes" / "clients.txt"
WORKER = Path(__file__).with_name("client_worker.py")
NEWEST, NEWEST_OF_NOVA = "2.98", "2.96"
"""Newest microversions of a zone, and of those that python-novaclient knows."""


def python_with_clients() -> Path:
    """The interpreter of the clients' environment. Skips the test where no index is in reach."""
    return kept_folder("clients", PINNED, _install) / "bin" / "python"


def _install(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip_install(str(folder / "bin" / "python"), PINNED, "OpenStack's clients")


@dataclass(frozen=True)
class Reply:
    """Exit code and output of a command line."""

    code: int
    out: str
    err: str


class Clients:
    """One user of one zone with the three clients. `clouds`: what `zonesched client-config` printed."""

    def __init__(self, python: Path, folder: Path, clouds: str, user: Credentials) -> None:
        self._python, self._folder = python, folder
        (folder / "clouds.yaml").write_text(clouds)
        compute = user.url + "/v2.1"
        self._environments = {
            "clouds.yaml": {"OS_CLIENT_CONFIG_FILE": str(folder / "clouds.yaml"), "OS_CLOUD": "zone"},
            # It reads no clouds.yaml, and asks for a project and Keystone's URL although it uses neither.
            "nova": {
                "OS_AUTH_TYPE": "http_basic",
                "OS_USERNAME": user.username,
                "OS_PASSWORD": user.password,
                "OS_ENDPOINT": compute,
                "OS_AUTH_URL": compute,
                "OS_PROJECT_NAME": "any",
            },
        }
        self._workers: dict[str, subprocess.Popen[str]] = {}

    def openstack(self, *words: str, version: str = NEWEST) -> Reply:
        """One command line of python-openstackclient."""
        return self._call("clouds.yaml", "openstack", ("--os-compute-api-version", version, *words))

    def nova(self, *words: str, version: str = NEWEST_OF_NOVA) -> Reply:
        """One command line of python-novaclient."""
        return self._call("nova", "nova", ("--os-compute-api-version", version, *words))

    def sdk(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """One method of openstacksdk's `connection.compute`; resources come back as dicts."""
        reply = self.sdk_reply(name, *args, **kwargs)
        assert reply.code == 0, reply.err
        return json.loads(reply.out)

    def sdk_reply(self, name: str, /, *args: Any, **kwargs: Any) -> Reply:
        """The same, also where the method raises; what it returns is printed as JSON."""
        return self._call("clouds.yaml", "sdk", (name, args, kwargs))

    def close(self) -> None:
        for worker in self._workers.values():
            worker.kill()
            worker.communicate()

    def _call(self, environment: str, client: str, words: Sequence[Any]) -> Reply:
        if environment not in self._workers:
            self._workers[environment] = self._start(self._environments[environment])
        worker = self._workers[environment]
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(json.dumps({"client": client, "words": words}) + "\n")
        worker.stdin.flush()
        return Reply(**json.loads(worker.stdout.readline()))

    def _start(self, environment: Mapping[str, str]) -> subprocess.Popen[str]:
        # Without the settings of whoever runs the tests.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))}
        return subprocess.Popen(
            [str(self._python), str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**own, "HOME": str(self._folder), "COLUMNS": "200", **environment},
        )


@contextmanager
def admin_clients(tree: DemoRun, folder: Path) -> Iterator[Clients]:
    """The clients as the root's admin, with the clouds.yaml that its operator would print, in `folder`."""
    credentials = tree.admin_file(tree.root)
    printed = io.StringIO()
    with redirect_stdout(printed):
        run(["--credentials", str(credentials), "client-config"], Session())
    home = folder / "home"
    home.mkdir()
    clients = Clients(python_with_clients(), home, printed.getvalue(), read_credentials(credentials))
    try:
        yield clients
    finally:
        clients.close()
