"""The network of tests does to calls what it is told, no more and no less."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import requests

from tests.builders.wsgi_transport import Dead, Duplicate, LostReply, Replace, Slow, Tamper, WsgiAdapter

TOP, MIDDLE, LEAF = (f"http://127.0.0.1:{port}" for port in (7001, 7002, 7003))


class Relay:
    """An application that counts its calls and asks other zones before it answers."""

    def __init__(self, network: WsgiAdapter, *below: tuple[str, float]) -> None:
        self.calls = 0
        self._network = network
        self._below = below

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.calls += 1
        answered = [call(self._network, url, timeout_s) for url, timeout_s in self._below]
        start_response("200 OK", [("X-Path", environ["PATH_INFO"])])
        return [f"{answered.count('late')} late".encode()]


def call(network: WsgiAdapter, url: str, timeout_s: float = 10.0, path: str = "/zones/info") -> str:
    request = requests.Request("GET", url + path).prepare()
    try:
        return network.send(request, timeout=timeout_s).raw.read().decode()
    except requests.Timeout:
        return "late"
    except requests.ConnectionError:
        return "dead"


@pytest.fixture
def network() -> WsgiAdapter:
    return WsgiAdapter()


def test_each_fault_does_what_it_says(network: WsgiAdapter) -> None:
    app = Relay(network)
    network.mount(TOP, app)

    for fault, answer, calls in (
        (Dead(), "dead", 0),
        (LostReply(), "late", 1),
        (Duplicate(), "0 late", 2),
        (Slow(10.0), "late", 1),
        (Slow(9.9), "0 late", 1),
        (Tamper(lambda body: body + b"!"), "0 late!", 1),
        (Replace(body=b"other"), "other", 1),
    ):
        app.calls = 0
        network.fault(TOP, fault)
        assert (call(network, TOP), app.calls) == (answer, calls)
        network.heal(TOP)


def test_a_fault_hits_as_often_and_where_it_says(network: WsgiAdapter) -> None:
    network.mount(TOP, Relay(network))
    network.fault(TOP, Dead(times=2, method="GET", path="/servers"))

    assert call(network, TOP) == "0 late"
    assert [call(network, TOP, path="/servers") for _ in range(3)] == ["dead", "dead", "0 late"]
    assert call(network, LEAF) == "dead"


@pytest.mark.parametrize(("timeout_below_s", "answer"), [(10.0, "late"), (9.0, "1 late")])
def test_waiting_for_a_slow_grandchild_takes_the_child_that_long(
    network: WsgiAdapter, timeout_below_s: float, answer: str
) -> None:
    network.mount(LEAF, Relay(network))
    network.mount(MIDDLE, Relay(network, (LEAF, timeout_below_s)))
    network.fault(LEAF, Slow(60.0))

    assert call(network, MIDDLE, timeout_s=10.0) == answer


def test_children_that_are_asked_together_take_as_long_as_the_slowest(network: WsgiAdapter) -> None:
    other = "http://127.0.0.1:7004"
    network.mount(LEAF, Relay(network))
    network.mount(other, Relay(network))
    network.mount(MIDDLE, Relay(network, (LEAF, 9.0), (other, 9.0)))
    network.fault(LEAF, Slow(6.0))
    network.fault(other, Slow(7.0))

    assert call(network, MIDDLE, timeout_s=7.1) == "0 late"
    assert call(network, MIDDLE, timeout_s=7.0) == "late"
    assert call(network, LEAF, timeout_s=6.1) == "0 late"
