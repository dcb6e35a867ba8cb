"""A real zone and 48 connections that guess passwords: machines and people who are known are served."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import requests

from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import answers, launched, write_conf
from zonesched.compute.credentials import Credentials, read_credentials

pytestmark = pytest.mark.slow
GUESSERS = 48


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Credentials]:
    folder, port = tmp_path_factory.mktemp("zone"), free_port()
    path = write_conf(folder, port)
    with launched("zonesched.serving", "--config-file", str(path)) as process:
        # A line for each call: a full pipe would stop the zone.
        threading.Thread(target=lambda: list(process.stdout or ()), daemon=True).start()
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
        yield read_credentials(folder / "state/admin.credentials")


@contextmanager
def guessing(zone: Credentials, statuses: Counter[int]) -> Iterator[None]:
    """48 connections that try one wrong password after another, each for a name of its own."""
    over = threading.Event()

    def guess(number: int) -> None:
        with requests.Session() as session:
            while not over.is_set():
                auth = (f"user{number}", f"wrong {time.monotonic()}")
                # A full zone closes the connection with its answer.
                with suppress(requests.RequestException):
                    statuses[session.get(zone.url + "/servers", auth=auth, timeout=30).status_code] += 1
                # Leave some of the machine to the zone.
                over.wait(0.02)

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(GUESSERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def seconds_of(
    zone: Credentials, session: requests.Session, auth: tuple[str, str], count: int
) -> list[float]:
    found = []
    for _ in range(count):
        started = time.monotonic()
        assert session.get(zone.url + "/zones/info", auth=auth, timeout=30).status_code == 200
        found.append(time.monotonic() - started)
    return found


def test_guessed_passwords_hold_up_no_machine(zone: Credentials) -> None:
    # given
    made = requests.post(
        zone.url + "/users",
        json={"user": {"name": "root", "role": "parent", "project_id": ""}},
        auth=(zone.username, zone.password),
        timeout=10,
    )
    auth = ("root", made.json()["user"]["secret"])
    statuses: Counter[int] = Counter()
    with requests.Session() as session:
        calm = seconds_of(zone, session, auth, 30)
        # when
        with guessing(zone, statuses):
            # The guesses are to be under way, which only the load on the zone shows.
            time.sleep(1)
            held_up = seconds_of(zone, session, auth, 30)
    # then
    assert statistics.median(held_up) < max(0.2, 5 * statistics.median(calm))
    assert max(held_up) < 3.0
    assert statuses[503] + statuses[429] > statuses[401]
