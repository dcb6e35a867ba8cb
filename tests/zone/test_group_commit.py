"""Group commit: who waits is written together; each is answered for itself, and only once it is durable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.one_zone import a_form, a_zone, add_hosts, used_on
from zonesched.errors import DatabaseFull
from zonesched.store import claims, identity, outcomes, tables
from zonesched.store import tables as t
from zonesched.store.group_commit import MAX_IN_ONE
from zonesched.store.outcomes import BecameError, Outcome
from zonesched.store.store import Store, Transaction

pytestmark = pytest.mark.sqlite

Write = Callable[[Transaction], object]


class Queue:
    """Writers of one store that are queued behind another one, in a known order, until that one is let go."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.begun = 0
        self.sent: list[Future[object]] = []
        self._pool = ThreadPoolExecutor(100)
        self._begin = store._group._begin
        store._group._begin = self._counted

    @contextmanager
    def _counted(self) -> Iterator[Transaction]:
        with self._begin() as tx:
            self.begun += 1
            yield tx

    def write_behind_one(self, *writes: Write) -> list[Future[object]]:
        """All have been answered when this returns."""
        let_go = threading.Event()
        first = self._pool.submit(self.store.write, lambda tx: let_go.wait(60))
        self._until(lambda: self.begun > 0)
        for n, write in enumerate(writes, start=1):
            self.sent.append(self._pool.submit(self.store.write, write))
            self._until(lambda n=n: len(self.store._group._waiting) == n)
        let_go.set()
        first.result(60)
        for future in self.sent:
            future.exception(60)
        return self.sent

    @staticmethod
    def _until(so: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(60_000):
            if so():
                return
            pause.wait(0.001)
        pytest.fail("nobody came")

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    store = Store.open(f"sqlite:///{tmp_path}/zone.sqlite")
    tables.instances.metadata.create_all(store.engine)
    queue = Queue(store)
    yield queue
    queue.close()
    store.close()


def image(name: str) -> Write:
    return lambda tx: tx.execute(sa.insert(t.images).values(id=name, name=name, properties="{}")) and name


def failing(name: str, error: BaseException) -> Write:
    def write(tx: Transaction) -> object:
        image(name)(tx)
        raise error

    return write


def images(queue: Queue) -> list[str]:
    return list(
        queue.store.read(lambda tx: tx.execute(sa.select(t.images.c.id).order_by("id")).scalars().all())
    )


def test_all_that_wait_are_written_in_one_transaction(queue: Queue) -> None:
    answers = queue.write_behind_one(*(image(f"i{n}") for n in range(5)))

    assert [answer.result() for answer in answers] == ["i0", "i1", "i2", "i3", "i4"]
    assert images(queue) == ["i0", "i1", "i2", "i3", "i4"]
    assert queue.begun == 2


def test_a_transaction_takes_no_more_than_so_many(queue: Queue) -> None:
    queue.write_behind_one(*(image(f"i{n:03}") for n in range(MAX_IN_ONE + 1)))

    assert len(images(queue)) == MAX_IN_ONE + 1
    assert queue.begun == 3


def test_writers_come_in_their_turn(queue: Queue) -> None:
    seen: list[int] = []

    queue.write_behind_one(*(lambda tx, n=n: seen.append(n) for n in range(20)))

    assert seen == list(range(20))


def test_a_writer_that_fails_takes_back_its_own_writes_alone(queue: Queue) -> None:
    good, bad, later = queue.write_behind_one(image("a"), failing("b", ValueError("no")), image("c"))

    assert (good.result(), later.result()) == ("a", "c")
    assert isinstance(bad.exception(), ValueError)
    assert images(queue) == ["a", "c"]


class Told:
    """An observer that keeps the outcomes that it is told."""

    def __init__(self) -> None:
        self.told: list[Outcome] = []

    def writing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def conflicted(self) -> None:
        raise AssertionError("no writer conflicts here")

    def committed(self, done: Sequence[Outcome]) -> None:
        self.told += done


def test_outcomes_are_told_once_written_and_those_of_a_writer_that_fails_never(queue: Queue) -> None:
    queue.store.observer = observer = Told()

    def noting(reason: str, write: Write) -> Write:
        return lambda tx: (outcomes.note(tx, BecameError(reason, 1, (), 0.0)), write(tx))

    no = ValueError("no")
    queue.write_behind_one(noting("a", image("a")), noting("b", failing("b", no)), noting("c", image("c")))

    assert observer.told == [BecameError("a", 1, (), 0.0), BecameError("c", 1, (), 0.0)]


def test_a_writer_that_meets_a_key_is_refused_alone(queue: Queue) -> None:
    first, second, other = queue.write_behind_one(image("a"), image("a"), image("b"))

    assert (first.exception(), other.exception()) == (None, None)
    assert isinstance(second.exception(), sa.exc.IntegrityError)
    assert images(queue) == ["a", "b"]


def test_a_commit_that_fails_is_told_to_all_and_to_nobody_before(queue: Queue) -> None:
    answered_before: list[bool] = []

    def disk_full(_connection: object) -> None:
        if queue.begun == 2 and not answered_before:
            # Whoever is told too early needs a moment to say so.
            answered, _ = wait(queue.sent, timeout=0.3, return_when=FIRST_COMPLETED)
            answered_before.extend(answer in answered for answer in queue.sent)
            raise sa.exc.OperationalError("COMMIT", {}, Exception("database or disk is full"))

    sa.event.listen(queue.store.engine, "commit", disk_full)
    answers = queue.write_behind_one(image("a"), failing("b", ValueError("no")), image("c"))

    assert [type(answer.exception()) for answer in answers] == [
        sa.exc.OperationalError,
        ValueError,
        sa.exc.OperationalError,
    ]
    assert answered_before == [False, False, False]
    assert images(queue) == []
    assert queue.store.write(image("d")) == "d"


def test_a_full_disk_is_told_to_all_of_a_group(queue: Queue, tmp_path: Path) -> None:
    engine = queue.store.engine

    @sa.event.listens_for(engine, "connect")
    def _(connection: Any, _record: object) -> None:
        connection.execute("pragma max_page_count=1")

    engine.dispose()

    def much(tx: Transaction) -> str:
        for number in range(200):
            image(str(number) * 200)(tx)
        return "much"

    answers = queue.write_behind_one(image("a"), much, image("c"))

    assert [type(answer.exception()) for answer in answers] == [DatabaseFull] * 3
    assert images(queue) == []


def test_what_waits_behind_a_thread_that_ends_is_written_by_another_one(queue: Queue) -> None:
    ended, other, third = queue.write_behind_one(failing("a", SystemExit()), image("b"), image("c"))

    assert isinstance(ended.exception(), SystemExit)
    assert (other.result(), third.result()) == ("b", "c")
    assert images(queue) == ["b", "c"]


def test_a_writer_that_is_written_again_after_a_thread_ended_is_told_how_that_went(queue: Queue) -> None:
    # given a writer that fails in a group, whose commit never comes since its thread ends
    begin, results = queue.store._group._begin, iter((ValueError("for now"), None))

    @contextmanager
    def ends_at_second() -> Iterator[Transaction]:
        with begin() as tx:
            yield tx
            if queue.begun == 2:
                raise SystemExit

    def fails_once(tx: Transaction) -> str:
        if (error := next(results)) is not None:
            raise error
        return "written"

    queue.store._group._begin = ends_at_second
    # when another thread writes it alone
    ended, again = queue.write_behind_one(lambda tx: "", fails_once)
    # then its writer learns that it is written
    assert isinstance(ended.exception(), SystemExit)
    assert again.result() == "written"


def test_two_processes_of_a_zone_that_claim_in_groups_take_what_there_is_and_no_more(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=100))
    stores = [zone.store, Store.open(zone.conf.database_url)]

    def claim(store: Store) -> int:
        return store.write(
            lambda tx: claims.claim(tx, identity.next_change(tx), {host_id: 1}, {"VCPU": 1})[host_id]
        )

    with ThreadPoolExecutor(16) as pool:
        taken = sum(pool.map(claim, stores * 60))

    stores[1].close()
    assert (taken, used_on(zone, host_id)) == (100, {"VCPU": 100})
