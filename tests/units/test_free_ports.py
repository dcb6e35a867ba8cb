"""Ports for the zones of benchmarks and tests."""

from __future__ import annotations

import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from benchmarks.zone_trees.processes import free_ports


def test_no_port_is_given_to_two_that_search_at_once() -> None:
    with ThreadPoolExecutor(8) as searching:
        found = [port for ports in searching.map(free_ports, [50] * 8) for port in ports]

    assert [port for port, times in Counter(found).items() if times > 1] == []


def test_a_port_on_which_somebody_listens_is_left_out() -> None:
    [port] = free_ports(1)
    with socket.create_server(("127.0.0.1", port + 1)):
        assert port + 1 not in free_ports(1)
