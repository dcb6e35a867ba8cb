"""The serving process's loop: it hears the signal that ends it, whenever that comes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from zonesched import conf as options
from zonesched.conf import Conf
from zonesched.serving.api_worker import GatheringWorker


@dataclass(frozen=True)
class App:
    """The part of the application that a worker reads before it loads it."""

    conf: Conf


class AskedToEndMeanwhile(int):
    """The number of the first process; SIGTERM comes while the worker compares it."""

    def __ne__(self, other: object) -> bool:
        signal.raise_signal(signal.SIGTERM)
        return super().__ne__(other)

    __hash__ = int.__hash__


@pytest.fixture
def terminated() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@contextmanager
def a_worker(first_process: int) -> Iterator[Any]:
    cfg = Config()
    worker = GatheringWorker(1, first_process, [], App(options.load()), 30, cfg, Logger(cfg))
    worker.method_queue.init()
    try:
        yield worker
    finally:
        worker.method_queue.close()
        worker.tmp.close()


@pytest.mark.usefixtures("terminated")
def test_a_signal_that_comes_while_the_first_process_is_looked_for_ends_the_worker() -> None:
    with a_worker(AskedToEndMeanwhile(os.getppid())) as worker:
        signal.signal(signal.SIGTERM, worker.handle_exit)

        assert not worker.is_parent_alive()
        assert not worker.alive


def test_a_worker_without_its_first_process_ends() -> None:
    with a_worker(os.getppid() + 1) as worker:
        assert not worker.is_parent_alive()
        assert not worker.alive


def test_a_worker_goes_on_otherwise() -> None:
    with a_worker(os.getppid()) as worker:
        assert worker.is_parent_alive()
        assert worker.alive
