"""Connections of the simulated network, where the process at their other end dies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import requests

from tests.builders.wsgi_transport import WsgiApp
from tests.simulation.baton import Process
from tests.simulation.network import a_request
from tests.simulation.stage import Stage

URL = "http://zone"


def nothing(environ: Any, start_response: Any) -> Iterable[bytes]:
    """Answer each call without a body."""
    start_response("204 No Content", [])
    return []


class Serving:
    """A process that answers each call at once, unless it is frozen."""

    def __init__(self) -> None:
        self.process = Process("zone")
        self.app: WsgiApp = nothing


def test_a_call_to_a_frozen_process_breaks_as_soon_as_that_dies() -> None:
    stage, serving, ended = Stage(seed=1), Serving(), list[tuple[str, float]]()
    stage.network.register("zone", URL)
    stage.network.servers["zone"].append(serving)
    serving.process.frozen_until = 50.0

    def call() -> None:
        try:
            stage.network.carry("operator", a_request("GET", f"{URL}/v2.1/servers", {}), 120.0)
        except requests.ConnectionError:
            ended.append(("broken", stage.baton.now))

    def die() -> None:
        stage.network.servers["zone"].clear()
        stage.baton.kill(serving.process)
        stage.network.end(serving.process)

    stage.baton.spawn(Process("operator"), "call", call)
    stage.baton.at(10.0, die)
    stage.baton.run(200.0)

    assert [what for what, _ in ended] == ["broken"]
    assert 10.0 < ended[0][1] < 10.1
