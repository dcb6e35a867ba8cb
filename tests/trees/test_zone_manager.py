"""Knowledge of a zone about its children, and the choice of those it asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from threading import Barrier, Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from tests.builders.child_app import UUID, ChildApp, a_child, a_transport, an_info, url
from tests.builders.clock import START, FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.builders.wsgi_transport import Dead, Fault, LostReply, Slow, Tamper, WsgiAdapter
from zonesched import conf as options
from zonesched.errors import ChildUnreachable
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.scheduler.scale import Range
from zonesched.seal.entry_form import blob_to_text, largest_child_blob
from zonesched.seams import Done, Executor, Failed, ThreadExecutor
from zonesched.zones import answers
from zonesched.zones.child import Child, ChildInfo, Offline, Ready, Waiting
from zonesched.zones.client import ChildClient
from zonesched.zones.fan_out import WORK_THREADS
from zonesched.zones.zone_manager import GROWTH_BYTES, Probed, ZoneManager

OWN_UUID = UUID.format(0)


class Scene:
    """A zone with children that answer well, each with its own application, until told otherwise."""

    def __init__(self, children: int = 1, executor: Executor | None = None, **settings: Any) -> None:
        self.clock = FakeClock()
        self.network = WsgiAdapter()
        self.apps: dict[int, ChildApp] = {}
        self.rows: list[Child] = []
        for number in range(1, children + 1):
            self.add(number)
        conf = options.load(overrides={"zone_failures_to_offline": 3, "zone_poll_timeout": 5.0, **settings})
        self.executor = executor or InlineExecutor()
        self.manager = ZoneManager.from_conf(
            conf, self, OWN_UUID, self.clock, self.executor, a_transport(self.network, self.clock)
        )

    def list_children(self) -> list[Child]:
        return list(self.rows)

    def note_zones(self, zone_uuids: Mapping[str, str]) -> list[str]:
        return []

    def add(self, number: int) -> None:
        self.rows.append(a_child(number))
        self.apps[number] = ChildApp()
        self.network.mount(url(number), self.apps[number])
        self.says(number)

    def says(self, number: int = 1, **changes: Any) -> None:
        self.apps[number].answers("GET", "/v2.1/zones/info", 200, an_info(number, **changes))

    def poll(self, times: int = 1) -> None:
        for _ in range(times):
            self.manager.poll()

    def status(self, number: int = 1) -> Any:
        return self.known(number).status

    def known(self, number: int = 1) -> Any:
        return next(k for k in self.manager.snapshot() if k.child.id == UUID.format(number))

    def asked(self, number: int = 1) -> int:
        return len(self.apps[number].asked)


def a_spec(
    extra_specs: dict[str, str] | None = None, *, vcpus: int = 1, zone: str = "", path: tuple[str, ...] = ()
) -> RequestSpec:
    flavor = Flavor("1", "s", vcpus, 512, 10, extra_specs or {})
    return RequestSpec(
        "req-1", "project-1", 1, flavor, Image("1", "cirros"), availability_zone=zone, path=path
    )


def test_a_child_waits_until_its_ranges_were_read() -> None:
    scene = Scene()
    scene.manager.refresh()

    before = scene.manager.snapshot()
    scene.poll()

    assert [k.status for k in before] == [Waiting()]
    assert isinstance(scene.status(), Ready)
    assert (scene.known().failures, scene.known().last_error, scene.known().seen_at) == (0, "", START)


def test_an_info_that_says_the_same_is_not_parsed_again_and_a_changed_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(children=2)
    parsed: list[bytes] = []
    read_info = answers.read_info

    def note_and_read(body: bytes) -> ChildInfo:
        parsed.append(body)
        return read_info(body)

    monkeypatch.setattr(answers, "read_info", note_and_read)
    scene.poll(3)
    assert len(parsed) == 2
    before = scene.status(2)

    scene.says(1, can_seal=False)
    scene.poll()

    assert (len(parsed), scene.status(1).info.can_seal) == (3, False)
    assert scene.status(2).info is before.info

    refused = scene.apps[2]
    refused.answers("GET", "/v2.1/zones/info", 403, an_info(2))
    scene.poll()
    assert scene.known(2).last_error == "child_refused"


def test_the_texts_of_a_removed_child_are_dropped() -> None:
    scene = Scene(children=2)
    scene.poll()

    del scene.rows[0]
    scene.manager.refresh()

    assert set(scene.manager._polls._last) == {UUID.format(2)}


def test_children_come_and_go_without_a_restart() -> None:
    scene = Scene(children=2)
    scene.poll()

    scene.add(3)
    del scene.rows[0]
    scene.manager.refresh()

    assert [type(k.status) for k in scene.manager.snapshot()] == [Ready, Waiting]
    scene.poll()
    assert [k.child.id for k in scene.manager.snapshot()] == [UUID.format(2), UUID.format(3)]
    assert scene.manager.active() == scene.rows
    with pytest.raises(ChildUnreachable):
        scene.manager.client(UUID.format(1))


def test_other_weights_are_taken_over_and_what_is_known_stays() -> None:
    scene = Scene()
    scene.poll()

    scene.rows[0] = replace(scene.rows[0], weight_offset=5.0, name="renamed")
    scene.manager.refresh()

    assert scene.known().child.weight_offset == 5.0
    assert isinstance(scene.status(), Ready)


@pytest.mark.parametrize(
    "change", [{"api_url": url(1)}, {"username": "other"}, {"password": "other"}], ids=str
)
def test_a_child_under_another_url_or_user_is_another_child(change: dict[str, Any]) -> None:
    scene = Scene()
    scene.poll()

    scene.rows[0] = replace(scene.rows[0], **change)
    scene.manager.refresh()

    assert scene.status() == Waiting()


def test_a_child_that_moves_while_it_is_polled_is_not_judged_by_the_old_answer() -> None:
    scene = Scene(children=2)

    def move(body: bytes) -> bytes:
        scene.rows[0] = replace(scene.rows[0], api_url=url(2))
        del scene.rows[1]
        scene.manager.refresh()
        return body

    scene.network.fault(url(1), Tamper(move))
    scene.poll()

    assert [k.status for k in scene.manager.snapshot()] == [Waiting()]


def test_rows_read_before_a_change_do_not_undo_it() -> None:
    scene = Scene(children=1)
    old = list(scene.rows)

    def slow_reader() -> list[Child]:
        scene.rows.append(a_child(2))
        scene.list_children = lambda: list(scene.rows)  # type: ignore[method-assign]
        scene.manager.refresh()
        return old

    scene.list_children = slow_reader  # type: ignore[method-assign]
    scene.manager.refresh()

    assert len(scene.manager.snapshot()) == 2


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (Dead(), "child_unreachable"),
        (Slow(5.0), "child_timeout"),
        (LostReply(), "child_timeout"),
        (Tamper(lambda body: b"{}"), "child_invalid_answer"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Fault) else value,
)
def test_a_child_is_offline_after_its_failures_in_a_row_and_comes_back_by_itself(
    problem: Fault, code: str
) -> None:
    scene = Scene()
    scene.poll()
    scene.clock.advance(10)
    scene.network.fault(url(), problem)

    scene.poll(2)
    assert isinstance(scene.status(), Ready)
    assert (scene.known().failures, scene.known().last_error) == (2, code)
    scene.poll()
    assert scene.status() == Offline(code, START)
    assert (scene.known().failures, scene.known().seen_at) == (3, START)

    scene.network.heal(url())
    scene.clock.advance(10)
    scene.poll()
    assert isinstance(scene.status(), Ready)
    assert (scene.known().failures, scene.known().last_error, scene.known().seen_at) == (0, "", START + 20)


def test_failures_that_are_not_in_a_row_do_not_add_up() -> None:
    scene = Scene()
    for _ in range(3):
        scene.poll()
        scene.network.fault(url(), Dead())
        scene.poll(2)
        scene.network.heal(url())

    assert isinstance(scene.status(), Ready)


def test_a_child_that_never_answered_goes_offline_unseen() -> None:
    scene = Scene()
    scene.network.fault(url(), Dead())

    scene.poll(2)
    waiting = scene.status()
    scene.poll()

    assert waiting == Waiting()
    assert scene.status() == Offline("child_unreachable", None)


def test_a_dead_child_does_not_touch_its_siblings() -> None:
    scene = Scene(children=3)
    scene.network.fault(url(2), Dead())

    scene.poll(3)

    assert [type(k.status) for k in scene.manager.snapshot()] == [Ready, Offline, Ready]


def test_a_child_that_is_this_very_zone_takes_no_part() -> None:
    scene = Scene()
    scene.says(uuid=OWN_UUID)

    scene.poll()

    assert scene.status() == Offline("child_is_self", START)
    assert scene.manager.eligible(a_spec()).complete is False


def test_a_child_that_takes_no_part_and_then_dies_is_told_by_its_last_error() -> None:
    scene = Scene()
    scene.says(uuid=OWN_UUID)
    scene.poll()

    scene.network.fault(url(), Dead())
    scene.poll()

    assert scene.status() == Offline("child_unreachable", START)


@pytest.mark.parametrize(
    ("configured", "told", "fits"),
    [(0, 256, True), (0, 8_064, True), (0, 8_065, False), (512, 384, True), (512, 385, False)],
)
def test_a_child_whose_blobs_do_not_fit_takes_no_part(configured: int, told: int, fits: bool) -> None:
    scene = Scene(build_plan_blob_size=configured)
    scene.says(blob_size=told)

    scene.poll()

    assert (scene.status() == Offline("child_blob_too_large", START)) is not fits
    assert scene.manager.blob_sizes() == [told if fits else 256]


def test_a_child_with_too_large_blobs_comes_back_with_smaller_ones() -> None:
    scene = Scene(build_plan_blob_size=512)
    scene.says(blob_size=512)
    scene.poll()

    scene.says(blob_size=256)
    scene.poll()

    assert isinstance(scene.status(), Ready)


@pytest.mark.parametrize(
    "spec",
    [
        a_spec(),
        a_spec(vcpus=16),
        a_spec({"resources:VCPU": "16", "trait:HW_SSD": "required"}),
        a_spec({"trait:HW_NONE": "forbidden"}),
        a_spec({"traits:any_of": "HW_NONE,HW_GPU;HW_SSD"}),
        a_spec({"zone:tier": "silver"}),
        a_spec(zone="az1"),
        a_spec(path=(OWN_UUID,)),
    ],
)
def test_a_child_that_could_hold_the_request_is_asked(spec: RequestSpec) -> None:
    scene = Scene()
    scene.poll()

    found = scene.manager.eligible(spec)

    assert (found.to_ask, found.ineligible, found.complete) == (tuple(scene.rows), (), True)


@pytest.mark.parametrize(
    "spec",
    [
        a_spec(vcpus=17),
        a_spec({"resources:CUSTOM_GPU": "1"}),
        a_spec({"resources1:CUSTOM_GPU": "1"}),
        a_spec({"trait1:HW_NONE": "required"}),
        a_spec({"trait:HW_NONE": "required"}),
        a_spec({"traits:any_of": "HW_SSD;HW_NONE"}),
        a_spec({"zone:tier": "bronze"}),
        a_spec({"zone:region": "eu"}),
        a_spec(zone="az2"),
        a_spec(path=(OWN_UUID, UUID.format(1))),
    ],
)
def test_a_child_that_could_not_is_not_asked_and_counts_as_answered(spec: RequestSpec) -> None:
    scene = Scene()
    scene.poll()

    found = scene.manager.eligible(spec)

    assert (found.to_ask, found.ineligible, found.complete) == ((), tuple(scene.rows), True)


def test_a_child_that_lacks_word_from_below_is_asked_all_the_same() -> None:
    scene = Scene()
    scene.says(complete=False)
    scene.poll()

    found = scene.manager.eligible(a_spec(vcpus=17))

    assert found.to_ask == tuple(scene.rows)


def test_a_child_is_not_judged_by_what_is_free() -> None:
    scene = Scene()
    scene.says(weighers={"RAMWeigher": "0.0,0.0"})
    scene.poll()

    assert scene.manager.eligible(a_spec()).to_ask == tuple(scene.rows)


def test_children_that_wait_are_offline_or_have_no_key_make_an_answer_incomplete() -> None:
    scene = Scene(children=4)
    scene.network.fault(url(1), Dead())
    scene.says(2, can_seal=False)
    scene.poll(3)
    scene.add(5)
    scene.manager.refresh()

    found = scene.manager.eligible(a_spec())

    assert [child.id for child in found.to_ask] == [UUID.format(3), UUID.format(4)]
    assert [child.id for child in found.unavailable] == [UUID.format(1), UUID.format(2), UUID.format(5)]
    assert not found.complete


def test_ranges_are_merged_over_the_children_that_are_ready() -> None:
    scene = Scene(children=3)
    scene.says(1, weighers={"RAMWeigher": "5,7", "own": "1,1"})
    scene.says(2, weighers={"RAMWeigher": "-2,6"})
    scene.says(3, weighers={"RAMWeigher": "0,1000"})
    scene.network.fault(url(3), Dead())
    scene.poll()

    assert scene.manager.ranges() == {"RAMWeigher": Range(-2, 7), "own": Range(1, 1)}


def test_children_are_asked_by_their_clients_in_order() -> None:
    scene = Scene(children=3)
    scene.poll()
    scene.network.fault(url(2), Dead())

    outcomes = scene.manager.ask(scene.rows, lambda client: client.info(5.0).uuid, timeout_s=5.0)

    assert [outcomes[0], outcomes[2]] == [Done(UUID.format(1)), Done(UUID.format(3))]
    assert isinstance(outcomes[1], Failed)


def test_calls_to_a_child_that_is_gone_fail_like_calls_to_a_dead_one() -> None:
    scene = Scene()
    scene.poll()

    gone, done = scene.manager.call(
        [
            (UUID.format(9), lambda client: client.info(5.0)),
            (UUID.format(1), lambda client: client.info(5.0)),
        ],
        timeout_s=5.0,
    )

    assert isinstance(gone, Failed) and gone.error.code == "child_unreachable"  # type: ignore[attr-defined]
    assert isinstance(done, Done)


def test_calls_end_with_the_time_of_the_whole_whatever_they_ask_for() -> None:
    scene = Scene()
    scene.poll()
    scene.network.fault(url(), Slow(3.0))

    (outcome,) = scene.manager.ask(scene.rows, lambda client: client.info(60.0), timeout_s=2.0)

    assert isinstance(outcome, Failed) and outcome.error.code == "child_timeout"  # type: ignore[attr-defined]


@pytest.mark.parametrize("configured", [0, 512])
@pytest.mark.parametrize("too_much", [0, 1])
def test_a_select_takes_blobs_that_have_grown_since_the_poll_up_to_a_bound(
    configured: int, too_much: int
) -> None:
    scene = Scene(build_plan_blob_size=configured)
    scene.poll()
    largest = min(2 * 256 + GROWTH_BYTES, largest_child_blob(configured))
    blob = blob_to_text(bytes(largest + too_much))
    offer = {
        "version": 1,
        "weights": [{"weight": 1, "tie": 0, "blob": blob}],
        "complete": True,
        "expires_in": 60,
    }
    scene.apps[1].answers("POST", "/v2.1/zones/select", 200, offer)

    (outcome,) = scene.manager.ask(scene.rows, lambda client: client.select(a_spec(), 5.0), timeout_s=5.0)

    if too_much:
        assert isinstance(outcome, Failed) and outcome.error.code == "child_invalid_answer"  # type: ignore[attr-defined]
    else:
        assert isinstance(outcome, Done) and outcome.value.blob_size == largest


def test_a_child_counts_with_the_blobs_that_it_offered_until_its_next_poll() -> None:
    scene = Scene()
    scene.poll()

    scene.manager.offered(UUID.format(1), 512)
    scene.manager.offered(UUID.format(1), 256)
    scene.manager.offered(UUID.format(2), 768)
    offered = scene.manager.blob_sizes()
    scene.poll()

    assert offered == [512]
    assert scene.manager.blob_sizes() == [256]


# -- threads -----------------------------------------------------------------------------------------------


@pytest.fixture
def threads() -> Iterator[ThreadExecutor]:
    executor = ThreadExecutor()
    yield executor
    executor.stop()


def test_a_child_is_polled_in_time_while_boots_tie_up_the_threads_for_work(threads: ThreadExecutor) -> None:
    scene = Scene(executor=threads, zone_failures_to_offline=1, zone_poll_timeout=20.0)
    scene.poll()
    over, all_taken = Event(), Barrier(WORK_THREADS + 1, timeout=30)

    def hang(client: ChildClient) -> None:
        all_taken.wait()
        over.wait(30)

    caller = Thread(target=scene.manager.call, args=([(UUID.format(1), hang)] * WORK_THREADS, 30.0))
    caller.start()
    all_taken.wait()

    scene.poll()
    over.set()
    caller.join()

    assert isinstance(scene.status(), Ready)
    assert scene.known().failures == 0


def test_a_child_that_was_removed_ties_up_no_threads(threads: ThreadExecutor) -> None:
    scene = Scene(2, executor=threads)
    scene.poll()
    scene.manager.ask(scene.rows, lambda client: client.info(5.0), timeout_s=5.0)
    before = of_bulkheads(scene)

    scene.rows.pop()
    scene.manager.refresh()
    for thread in of_bulkheads(scene, 2):
        thread.join(timeout=30)

    assert {thread.name[:-2] for thread in before} == {
        f"bulkhead-{UUID.format(n)}-{bulkhead}" for n in (1, 2) for bulkhead in ("work", "health")
    }
    assert (len(of_bulkheads(scene, 1)), of_bulkheads(scene, 2)) == (2, [])


def test_a_child_that_was_only_probed_ties_up_no_threads(threads: ThreadExecutor) -> None:
    scene = Scene(executor=threads)
    scene.says(uuid=OWN_UUID)

    probed = scene.manager.probe(scene.rows[0])
    for thread in of_bulkheads(scene):
        thread.join(timeout=30)

    assert (probed, of_bulkheads(scene)) == (Probed(OWN_UUID, "child_is_self"), [])


def of_bulkheads(scene: Scene, *numbers: int) -> list[Thread]:
    """The living threads of these children's bulkheads, of all where none is named."""
    names = tuple(f"bulkhead-{UUID.format(n)}-" for n in numbers or scene.apps)
    return [thread for thread in enumerate_threads() if thread.name.startswith(names)]
