"""Large selects of one caller that waited for the same child: one merges and seals at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from tests.builders.real_processes import eventually
from tests.builders.tree import Node, Tree, a_host
from zonesched.model.caller import Caller, Role
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.seams import ThreadExecutor
from zonesched.services.select import parent_offer
from zonesched.services.select.select import LARGE
from zonesched.turns import Turns, current

pytestmark = pytest.mark.once

SALT_BYTES = 32
TIMEOUT_S = 10.0
SELECTS = 2
PARENT = Caller("99999999-9999-4999-8999-999999999999", "parent", Role.PARENT, "")


class SealingClock(FakeClock):
    """Notes how many threads of a turn seal at a time: a salt is drawn once for each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.others_are_decided: Callable[[], bool] = lambda: True
        self.sealing = 0
        self.most = 0

    def random_bytes(self, count: int) -> bytes:
        if count == SALT_BYTES and current() is not None:
            self.sealing += 1
            self.most = max(self.most, self.sealing)
            eventually("each other select seals or sleeps", self.others_are_decided, TIMEOUT_S)
            self.sealing -= 1
        return super().random_bytes(count)


class AnswersTogether:
    """A zone that answers selects once so many have arrived."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._all_here = threading.Barrier(SELECTS)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].endswith("/select"):
            self._all_here.wait(TIMEOUT_S)
        answer: Iterable[bytes] = self._app(environ, start_response)
        return answer


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Node]:
    """root -> leaf, which answers selects together."""
    executor = ThreadExecutor()
    tree = Tree(tmp_path, SealingClock(), executor=executor)
    root = tree.add("root")
    leaf = tree.add("leaf", parent="root", hosts_=[a_host("h1", vcpus=4)])
    tree.network.mount(leaf.url, AnswersTogether(leaf.app))
    tree.poll()
    yield root
    executor.stop()


@pytest.mark.parametrize(("count", "together"), [(LARGE + 1, 1), (LARGE, SELECTS)])
def test_one_large_select_of_a_caller_seals_at_a_time(root: Node, count: int, together: int) -> None:
    large = Turns(1)
    turns = Turns(SELECTS, large)
    clock = root.zone.clock
    assert isinstance(clock, SealingClock)
    offers = []

    def ask(number: int) -> None:
        spec = RequestSpec(
            request_id=f"11111111-1111-4111-8111-{number:012}",
            project_id="project-1",
            num_instances=count,
            flavor=Flavor("f1", "small", 1, 64, 1),
            image=Image("", ""),
            time_budget_s=30.0,
            alternates=0,
        )
        with turns.of("parent"):
            offers.append(parent_offer.answer_parent(root.zone, PARENT, spec))

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(SELECTS)]
    clock.others_are_decided = lambda: (
        clock.most == SELECTS or "parent" in large._begun or not all(thread.is_alive() for thread in threads)
    )
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)

    assert [len(offer.weights) for offer in offers] == [4] * SELECTS
    assert clock.most == together
