"""OpenStack's clients in one process of their own environment, a call for each line of standard input.

    {"client": "openstack", "words": ["server", "list"]}  ->  {"code": 0, "out": "...", "err": ""}

`sdk` takes the name of a method of `connection.compute` and its arguments; `out` is what it returns, as JSON.
Only the clients' pauses are shortened, which are made for a cloud that takes minutes.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import itertools
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import openstack
from novaclient.shell import OpenStackComputeShell
from openstack.resource import Resource
from openstackclient import shell as openstack_shell
from osc_lib.clientmanager import ClientCache, ClientManager

LONGEST_PAUSE_S = 0.1
MOST_LISTED = 100


def run_openstack(words: Sequence[str]) -> int:
    # The first line of a process makes the clients, for the API version that it asks for.
    for made in vars(ClientManager).values():
        if isinstance(made, ClientCache):
            made._handle = None
    return int(openstack_shell.main(list(words)) or 0)


def run_nova(words: Sequence[str]) -> int:
    OpenStackComputeShell().main(list(words))
    return 0


class Sdk:
    """The compute half of one connection, kept between calls."""

    def __init__(self) -> None:
        self._connections: dict[str, Any] = {}

    def __call__(self, words: Sequence[Any]) -> int:
        cloud = os.environ["OS_CLOUD"]
        if cloud not in self._connections:
            self._connections[cloud] = openstack.connect(cloud=cloud)
        name, args, kwargs = words
        compute = self._connections[cloud].compute
        if name.startswith("wait_for"):
            args = [compute.get_server(args[0]), *args[1:]]
        found = getattr(compute, name)(*args, **kwargs)
        print(json.dumps(plain(found), default=str))
        return 0


def plain(value: Any) -> Any:
    """Resources as dicts; of a generator, its items."""
    if isinstance(value, Resource):
        return value.to_dict()
    if hasattr(value, "__next__"):
        return [plain(item) for item in itertools.islice(value, MOST_LISTED)]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


CLIENTS: dict[str, Callable[[Any], int]] = {"openstack": run_openstack, "nova": run_nova, "sdk": Sdk()}


def answer(call: dict[str, Any]) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = CLIENTS[call["client"]](call["words"])
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except Exception as error:
            if call.get("trace"):
                traceback.print_exc()
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            code = 1
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def main() -> None:
    pause = time.sleep
    time.sleep = lambda seconds: pause(min(float(seconds), LONGEST_PAUSE_S))
    # Nobody is there to type one.
    getpass.getpass = lambda *prompt: "new-password"
    # What a library prints by another way must not come between the answers.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=replies)


if __name__ == "__main__":
    main()
