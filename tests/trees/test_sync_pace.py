"""A child whose feed hangs does not delay the reading of another child's."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, boot
from tests.builders.clock import FakeClock
from tests.builders.real_processes import eventually
from tests.builders.timed_network import NEVER, SideBySide, TimedNetwork, Timeline
from tests.builders.tree import Tree, a_host
from zonesched.seams import ThreadExecutor
from zonesched.services import background
from zonesched.services.children.sync import Sync

pytestmark = pytest.mark.once

FEED = "/reservations"
DURATION_S = 25.0
RETRY_PAUSE_S = 0.05
TIMEOUT_S = 10.0


class Feed:
    """A zone that notes when its feed is asked for, and answers it while `is_open`."""

    def __init__(self, app: Any, clock: FakeClock) -> None:
        self._app = app
        self._clock = clock
        self.asked_at: list[float] = []
        self.is_open = threading.Event()
        self.is_open.set()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].endswith(FEED):
            self.asked_at.append(self._clock.monotonic())
            self.is_open.wait(TIMEOUT_S)
        answer: Iterable[bytes] = self._app(environ, start_response)
        return answer


def with_children(tree: Tree) -> dict[str, Feed]:
    """root -> slow, quick; a boot of root is unfinished, so both are asked often."""
    root = tree.add("root", retry_pause=RETRY_PAUSE_S)
    root.client().post("/flavors", FLAVOR)
    feeds = {}
    for name in ("slow", "quick"):
        child = tree.add(name, parent="root", hosts_=[a_host("h1")])
        feeds[name] = Feed(child.app, tree.clock)
        tree.network.mount(child.url, feeds[name])
    tree.poll()
    boot(tree, num_instances=1)
    while background.work_on_boots(root.zone) == 0.0:
        pass
    return feeds


def longest_gap_s(folder: Path, feed_takes_s: float) -> float:
    """The longest time between two reads of the quick child's feed, while the slow one's takes so long."""
    folder.mkdir()
    clock = Timeline()
    network = TimedNetwork(clock)
    tree = Tree(folder, clock, network=network, executor=SideBySide(clock))
    feeds = with_children(tree)
    network.takes[tree.nodes["slow"].url + FEED] = feed_takes_s
    loop, ends_at = Sync(tree.nodes["root"].zone), tree.clock.monotonic() + DURATION_S
    while tree.clock.monotonic() < ends_at:
        tree.clock.advance(max(0.01, loop.step()))
    return max(later - earlier for earlier, later in pairwise(feeds["quick"].asked_at))


@pytest.mark.slow
def test_a_feed_is_read_on_time_while_that_of_another_child_hangs(tmp_path: Path) -> None:
    calm_s = longest_gap_s(tmp_path / "calm", 0.0)

    hanging_s = longest_gap_s(tmp_path / "hanging", NEVER)

    assert hanging_s <= calm_s + 2 * RETRY_PAUSE_S


def test_a_feed_that_hangs_is_asked_for_once_and_again_after_its_answer(tmp_path: Path) -> None:
    tree = Tree(tmp_path, executor=ThreadExecutor())
    feeds = with_children(tree)
    loop = Sync(tree.nodes["root"].zone)
    feeds["slow"].is_open.clear()

    for _ in range(5):
        loop.step()
        eventually("the quick one is read", lambda: len(loop._reading) == 1)
        tree.clock.advance(60.0)
    asked = {name: len(feed.asked_at) for name, feed in feeds.items()}
    feeds["slow"].is_open.set()
    eventually("its answer is taken", lambda: not loop._reading)
    loop.step()
    tree.executor.stop()

    assert asked == {"slow": 1, "quick": 5}
    assert len(feeds["slow"].asked_at) == 2


def test_a_feed_at_rest_that_hangs_is_asked_for_once_more_in_its_own_thread(tmp_path: Path) -> None:
    tree = Tree(tmp_path, executor=ThreadExecutor())
    feeds = with_children(tree)
    loop = Sync(tree.nodes["root"].zone)
    for _ in range(2):
        tree.clock.advance(60.0)
        loop.step()
    at_rest = {name: len(feed.asked_at) for name, feed in feeds.items()}
    feeds["slow"].is_open.clear()

    for _ in range(5):
        tree.clock.advance(60.0)
        loop.step()
        eventually("the quick one is read", lambda: len(loop._reading) == 1)
    asked = {name: len(feed.asked_at) - at_rest[name] for name, feed in feeds.items()}
    feeds["slow"].is_open.set()
    eventually("its answer is taken", lambda: not loop._reading)
    tree.executor.stop()

    assert asked == {"slow": 2, "quick": 5}
