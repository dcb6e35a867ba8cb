"""Instances that are domains, on libvirt's own test driver."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.dead_folder import dead_folder
from tests.builders.libvirt_bench import ROUNDS, Killed, LibvirtBench, desired, dies_at, wanted
from zonesched.compute.desired_state import Desired, Observed, Power, RebootType
from zonesched.compute.driver import DriverUnknown, HasHost, HasWork, load_driver
from zonesched.compute.lease import Lease
from zonesched.compute.libvirt_domain import Machine, Refused, domain_xml, first_marker
from zonesched.compute.machine import Built, Changed, Destroyed, Failed, Found, Key, Left
from zonesched.errors import ConfigError

A = Key("0190f7a2-64b1-7c1e-8000-00000000000a", 1)
A2 = replace(A, attempt=2)
B = Key("0190f7a2-64b1-7c1e-8000-00000000000b", 1)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[LibvirtBench]:
    bench = LibvirtBench(tmp_path)
    yield bench
    bench.end()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder with two images of one MB, one as qcow2 and one as raw."""
    folder = tmp_path / "images"
    folder.mkdir()
    qemu_img("create", "-q", "-f", "qcow2", str(folder / "cirros.qcow2"), "1M")
    (folder / "alpine.raw").write_bytes(bytes(2**20))
    return folder


def qemu_img(*arguments: str) -> str:
    try:
        return subprocess.run(["qemu-img", *arguments], check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        pytest.skip("qemu-img is not installed")


def define_for_a_dead_agent(bench: LibvirtBench, key: Key) -> None:
    """Define a domain as libvirt does for a call that was under way when its agent was killed."""
    folder = bench.folder.resolve() / "instances"
    marker = first_marker(wanted(key), str(folder))
    machine = Machine("test", 1, 64, None, folder / f"{key.uuid}.{key.attempt}" / "console.log")
    bench.outside.defineXML(domain_xml(marker, machine))


def damage(bench: LibvirtBench, left: str | None) -> None:
    """Write another marker of A's domain, or none, as an operator's tools may."""
    domain, flags = bench.domain(A), bench.libvirt.VIR_DOMAIN_AFFECT_CONFIG
    flags |= bench.libvirt.VIR_DOMAIN_AFFECT_LIVE if domain.isActive() else 0
    element = bench.libvirt.VIR_DOMAIN_METADATA_ELEMENT
    domain.setMetadata(element, left, left and "zonesched", "urn:zonesched:instance:1", flags)


def run(bench: LibvirtBench, driver: Any, key: Key = A, **more: Any) -> None:
    driver.spawn(wanted(key, **more))
    assert bench.told(driver) == [Built(key)]


def reached(generation: int, power: Power, reason: str = "", key: Key = A, rebuilds: int = 0) -> Changed:
    return Changed(key, Observed(generation, power, reason, rebuilds))


class TestBuild:
    def test_it_is_found_by_its_name(self, bench: LibvirtBench) -> None:
        driver = load_driver("libvirt")(bench.settings, bench.clock)

        assert isinstance(driver, HasWork)
        assert isinstance(driver, HasHost)
        bench._drivers.append(driver)

    def test_without_a_folder_it_says_so(self, bench: LibvirtBench) -> None:
        bench.settings = replace(bench.settings, state_folder="")
        with pytest.raises(ConfigError, match="state folder"):
            bench.driver()

    def test_two_agents_do_not_share_a_folder(self, bench: LibvirtBench) -> None:
        bench.driver()
        with pytest.raises(ConfigError, match="used by another agent"):
            bench.modules["libvirt"].LibvirtDriver(bench.settings, bench.clock)

    def test_a_folder_of_images_that_is_not_there_is_said(self, bench: LibvirtBench) -> None:
        with pytest.raises(ConfigError, match="does not exist"):
            bench.driver(image_folder=str(bench.folder / "none"))

    def test_no_libvirt_is_said_at_the_start(self, bench: LibvirtBench) -> None:
        driver = bench.driver(uri="test:///no/such/file.xml")
        with pytest.raises(ConfigError, match="Libvirt does not answer"):
            driver.found()
        with pytest.raises(ConfigError, match="Libvirt does not answer"):
            driver.host()

    def test_another_libvirt_than_that_of_its_disks_is_said_at_the_start(self, bench: LibvirtBench) -> None:
        run(bench, bench.driver(), disk=1)
        other = bench.folder / "other.xml"
        other.write_text("<node/>")
        driver = bench.driver(uri=f"test://{other}")

        with pytest.raises(ConfigError, match="no domain of the 1 instances whose disks are in"):
            driver.found()

        assert bench.files() == [f"{A.uuid}.1"]
        assert list(bench.driver().found()) == [A]

    def test_an_instance_is_a_domain_of_its_uuid_and_flavor(self, bench: LibvirtBench) -> None:
        run(bench, bench.driver(), name="Ada's <server> & more", vcpus=2, ram=96)

        domain = bench.domain(A)
        assert (domain.UUIDString(), domain.name()) == (A.uuid, f"{A.uuid}.1")
        assert domain.info()[:4] == [bench.libvirt.VIR_DOMAIN_RUNNING, 96 * 1024, 96 * 1024, 2]
        assert f"{bench.folder}/instances/{A.uuid}.1/console.log" in domain.XMLDesc()
        assert "Ada's &lt;server&gt; &amp; more" in domain.XMLDesc().partition("</metadata>")[0]
        assert "Ada" not in domain.XMLDesc().partition("</metadata>")[2]

    @pytest.mark.parametrize("name", ["\x00\x07", "\ud800", "]]><domain/>", "\N{PILE OF POO}" * 60, ""])
    def test_a_name_may_be_any_text(self, bench: LibvirtBench, name: str) -> None:
        run(bench, bench.driver(), name=name)

        assert list(bench.driver().found()) == [A]

    def test_it_is_built_once_however_often_that_is_asked_for(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        driver.spawn(wanted(A))
        driver.spawn(wanted(A))

        assert bench.told(driver) == [Built(A)]
        driver.spawn(wanted(A))
        assert bench.told(driver) == []
        assert bench.names() == [f"{A.uuid}.1"]

    def test_libvirts_users_pass_through_to_its_disk_whatever_the_umask_is(self, bench: LibvirtBench) -> None:
        before = os.umask(0o077)
        try:
            run(bench, bench.driver(), disk=1)
        finally:
            os.umask(before)

        folder = bench.folder / "instances" / f"{A.uuid}.1"
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder)] == [0o711, 0o711]

    def test_a_later_attempt_waits_until_the_earlier_one_is_gone(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        run(bench, driver)
        driver.spawn(wanted(A2))
        assert bench.told(driver) == []
        assert bench.names() == [f"{A.uuid}.1"]

        driver.destroy(A)

        assert bench.told(driver) == [Destroyed(A), Built(A2)]
        assert bench.names() == [f"{A.uuid}.2"]

    def test_one_that_ran_and_is_not_here_is_lost(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        driver.spawn(wanted(A, is_active=True))

        assert bench.told(driver) == [Failed(A, "domain_lost")]
        assert bench.names() == []

    def test_a_uuid_that_is_none_fails_and_ends(self, bench: LibvirtBench) -> None:
        driver, key = bench.driver(), Key("a-1", 1)
        driver.spawn(wanted(key))
        assert bench.told(driver) == [Failed(key, "uuid_not_usable")]

        driver.destroy(key)
        assert bench.told(driver) == [Destroyed(key)]

    def test_a_domain_of_somebody_else_is_left_alone(self, bench: LibvirtBench) -> None:
        bench.outside.defineXML(
            f"<domain type='test'><name>{A.uuid}.1</name><uuid>{A.uuid}</uuid><memory>65536</memory>"
            f"<title>{bench.folder}</title><os><type>hvm</type></os></domain>"
        )
        driver = bench.driver()
        assert list(driver.found()) == []
        driver.spawn(wanted(A))

        assert bench.told(driver) == [Failed(A, "domain_not_defined")]
        driver.destroy(A)
        assert bench.told(driver) == [Destroyed(A)]
        assert bench.names() == [f"{A.uuid}.1"]
        assert bench.power(A) is Power.STOPPED

    def test_a_domain_of_another_agent_is_left_alone(self, bench: LibvirtBench, tmp_path: Path) -> None:
        run(bench, bench.driver())
        bench.settings = replace(bench.settings, state_folder=str(tmp_path / "other"))

        assert list(bench.driver().found()) == []

    def test_one_that_cannot_start_fails(self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch) -> None:
        refuse(monkeypatch, bench, "start")
        driver = bench.driver()
        driver.spawn(wanted(A))
        assert bench.told(driver) == [Failed(A, "domain_not_started")]

        driver.destroy(A)
        assert bench.told(driver) == [Destroyed(A)]
        assert (bench.names(), bench.files()) == ([], [])

    def test_one_that_ends_before_it_was_seen_fails_and_is_not_started_again(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        starts = 0

        def start(domains: Any, key: Key) -> None:
            nonlocal starts
            starts += 1
            domains._lookup(key).create()
            domains._lookup(key).destroy()

        monkeypatch.setattr(bench.modules["libvirt_domains"].Domains, "start", start)
        driver = bench.driver()
        driver.spawn(wanted(A))

        assert bench.told(driver) == [Failed(A, "domain_destroyed")]
        assert starts == 1


def refuse(monkeypatch: pytest.MonkeyPatch, bench: LibvirtBench, *names: str) -> None:
    """Let libvirt refuse these calls, as it does where a domain does not exist."""
    domains = bench.modules["libvirt_domains"].Domains
    elsewhere = Key("0190f7a2-64b1-7c1e-8000-0000000000ff", 1)
    for name in names:
        real = getattr(domains, name)
        monkeypatch.setattr(domains, name, lambda self, key, real=real: real(self, elsewhere))


class TestEnd:
    @pytest.mark.parametrize("power", Power)
    def test_nothing_is_left_of_it(self, bench: LibvirtBench, power: Power) -> None:
        driver = bench.driver()
        run(bench, driver)
        if power is not Power.RUNNING:
            driver.apply(A, desired(1, power))
            assert bench.told(driver) == [reached(1, power)]
        assert bench.files() == [f"{A.uuid}.1"]

        driver.destroy(A)

        assert bench.told(driver) == [Destroyed(A)]
        assert (bench.names(), bench.files()) == ([], [])

    def test_what_is_not_there_has_ended(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        driver.destroy(A)
        assert bench.told(driver) == [Destroyed(A)]

    def test_it_ends_also_while_it_is_built(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        driver.spawn(wanted(A))
        driver.work()
        driver.destroy(A)

        assert bench.told(driver) == [Destroyed(A)]
        assert bench.names() == []

    def test_an_end_is_never_given_up(self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch) -> None:
        driver = bench.driver()
        run(bench, driver)
        with monkeypatch.context() as refusing:
            refuse(refusing, bench, "power_off")
            driver.destroy(A)
            assert bench.told(driver) == []

        assert bench.told(driver) == [Destroyed(A)]


ACTIONS = [Power.STOPPED, Power.PAUSED, Power.SUSPENDED, Power.RUNNING]


class TestPower:
    @pytest.mark.parametrize("first", ACTIONS)
    @pytest.mark.parametrize("then", ACTIONS)
    def test_every_state_is_reached_from_every_other(
        self, bench: LibvirtBench, first: Power, then: Power
    ) -> None:
        driver = bench.driver()
        run(bench, driver)

        driver.apply(A, desired(1, first))
        assert bench.told(driver) == [reached(1, first)]
        assert bench.power(A) is first
        driver.apply(A, desired(2, then))
        assert bench.told(driver) == [reached(2, then)]
        assert bench.power(A) is then

    def test_only_the_newest_is_reached_and_once(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        run(bench, driver)
        for generation, power in (
            (1, Power.STOPPED),
            (3, Power.PAUSED),
            (2, Power.SUSPENDED),
            (3, Power.STOPPED),
        ):
            driver.apply(A, desired(generation, power))

        assert bench.told(driver) == [reached(3, Power.PAUSED)]
        driver.apply(A, desired(3, Power.STOPPED))
        assert bench.told(driver) == []

    @pytest.mark.parametrize("kind", RebootType)
    @pytest.mark.parametrize("before", [Power.RUNNING, Power.PAUSED, Power.SUSPENDED])
    def test_a_reboot_starts_it_once(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch, kind: RebootType, before: Power
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        driver.apply(A, desired(1, before))
        bench.told(driver)
        domains, started = bench.modules["libvirt_domains"].Domains, []
        real = domains.start
        monkeypatch.setattr(domains, "start", lambda self, key: (started.append(key), real(self, key)))

        driver.apply(A, desired(2, reboots=1, reboot_type=kind))
        assert bench.told(driver) == [reached(2, Power.RUNNING)]
        driver.apply(A, desired(3, reboots=1))
        assert bench.told(driver) == [reached(3, Power.RUNNING)]

        assert started == [A]

    def test_a_guest_that_does_not_shut_down_is_powered_off_in_time(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = []
        monkeypatch.setattr(
            bench.modules["libvirt_domains"].Domains, "shut_down", lambda _, key: asked.append(key)
        )
        driver = bench.driver()
        run(bench, driver)
        driver.apply(A, desired(1, Power.STOPPED))

        assert bench.told(driver, rounds=6) == []
        assert bench.power(A) is Power.RUNNING
        assert bench.told(driver, rounds=3) == [reached(1, Power.STOPPED)]
        assert asked == [A]

    @pytest.mark.parametrize(
        ("call", "power", "reason"),
        [("save", Power.SUSPENDED, "domain_not_saved"), ("pause", Power.PAUSED, "domain_not_paused")],
    )
    def test_what_libvirt_refuses_is_refused_and_the_instance_as_it_was(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch, call: str, power: Power, reason: str
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        refuse(monkeypatch, bench, call)
        driver.apply(A, desired(1, power))
        assert bench.told(driver) == [reached(1, Power.RUNNING, reason)]

        driver.apply(A, desired(2, Power.STOPPED))
        assert bench.told(driver) == [reached(2, Power.STOPPED)]

    def test_a_refusal_is_told_by_the_next_agent_where_the_first_one_died_before_it_could(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        refuse(monkeypatch, bench, "pause")
        driver.apply(A, desired(1, Power.PAUSED))
        for _ in range(ROUNDS):
            driver.work()
        again = bench.driver()
        again.found()

        assert bench.told(again) == [Built(A, Observed(1, Power.RUNNING, "domain_not_paused"))]

    def test_a_reboot_that_libvirt_refuses_does_not_come_with_the_next_state(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        number = bench.domain(A).ID()
        with monkeypatch.context() as refusing:
            refuse(refusing, bench, "power_off")
            driver.apply(A, desired(1, reboots=1, reboot_type=RebootType.HARD))
            assert bench.told(driver) == [reached(1, Power.RUNNING, "domain_not_stopped")]

        driver.apply(A, desired(2, Power.PAUSED, reboots=1))
        assert bench.told(driver) == [reached(2, Power.PAUSED)]

        assert bench.domain(A).ID() == number

    def test_one_that_pauses_again_as_often_as_it_goes_on_ends_that_action(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver, resumed = bench.driver(), list[Key]()
        run(bench, driver)
        driver.apply(A, desired(1, Power.PAUSED))
        assert bench.told(driver) == [reached(1, Power.PAUSED)]
        resume = bench.modules["libvirt_domains"].Domains.resume

        def resume_once(domains: Any, key: Key) -> None:
            resume(domains, key)
            resumed.append(key)
            bench.domain(A).suspend()

        monkeypatch.setattr(bench.modules["libvirt_domains"].Domains, "resume", resume_once)
        driver.apply(A, desired(2))

        assert bench.told(driver) == [reached(2, Power.PAUSED, "domain_not_resumed")]
        assert resumed == [A]


class FullDisk:
    """Libvirt's disk: while it is full, libvirt refuses to write a marker."""

    def __init__(self, domains: Any) -> None:
        self._domains = domains
        self._patch = pytest.MonkeyPatch()

    def fill(self) -> None:
        def note(_: Any, marker: Any) -> None:
            raise Refused("domain_not_written", "No space left on device")

        self._patch.setattr(self._domains, "note", note)

    def empty(self) -> None:
        self._patch.undo()


class TestUnwritten:
    """Libvirt takes no markers, as on a full disk; what it cannot write it says, and changes nothing."""

    @pytest.fixture
    def disk(self, bench: LibvirtBench) -> Iterator[FullDisk]:
        disk = FullDisk(bench.modules["libvirt_domains"].Domains)
        yield disk
        disk.empty()

    def test_an_action_that_was_done_is_told_and_written_once_there_is_room(
        self, bench: LibvirtBench, disk: FullDisk
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        disk.fill()
        driver.apply(A, desired(1, Power.STOPPED))
        assert bench.told(driver) == [reached(1, Power.STOPPED)]
        driver.apply(A, desired(2, Power.PAUSED))
        assert bench.told(driver) == [reached(2, Power.PAUSED)]
        disk.empty()

        assert bench.told(driver, rounds=40) == []
        again = bench.driver()
        again.found()
        assert bench.told(again) == [Built(A, Observed(2, Power.PAUSED))]

    def test_one_that_ends_by_itself_is_told_once(self, bench: LibvirtBench, disk: FullDisk) -> None:
        driver = bench.driver()
        run(bench, driver)
        disk.fill()
        bench.domain(A).destroy()

        assert bench.told(driver, rounds=40) == [reached(0, Power.STOPPED, "domain_destroyed")]

    def test_one_that_a_new_agent_finds_is_not_given_up(self, bench: LibvirtBench, disk: FullDisk) -> None:
        run(bench, bench.driver())
        bench.domain(A).destroy()
        disk.fill()
        again = bench.driver()
        again.found()

        assert bench.told(again) == [Built(A, Observed(0, Power.STOPPED, "domain_destroyed"))]

    @pytest.mark.parametrize("is_hung", [False, True])
    def test_one_that_is_given_up_while_it_is_built_runs_no_more(
        self, bench: LibvirtBench, disk: FullDisk, monkeypatch: pytest.MonkeyPatch, is_hung: bool
    ) -> None:
        # given a domain that runs, and that libvirt will not note as built
        disk.fill()
        driver = bench.driver()
        driver.spawn(wanted(A))
        if is_hung:
            with monkeypatch.context() as refusing:
                refuse(refusing, bench, "power_off")
                assert bench.told(driver, rounds=60) == []
                assert bench.power(A) is Power.RUNNING

        # then it counts as failed, and may be built elsewhere, once it is off
        assert bench.told(driver, rounds=60) == [Failed(A, "domain_not_written")]
        assert bench.power(A) is Power.STOPPED
        driver.destroy(A)
        assert bench.told(driver) == [Destroyed(A)]

    def test_a_reboot_that_could_not_be_counted_is_refused(self, bench: LibvirtBench, disk: FullDisk) -> None:
        driver = bench.driver()
        run(bench, driver)
        disk.fill()
        driver.apply(A, desired(1, reboots=1, reboot_type=RebootType.HARD))

        assert bench.told(driver) == [reached(1, Power.STOPPED, "domain_not_written")]


class TestByItself:
    """Changes of a domain that nobody asked the driver for."""

    @pytest.mark.parametrize(
        ("happens", "power", "reason"),
        [
            (lambda domain, libvirt: domain.shutdown(), Power.STOPPED, "domain_ended"),
            (lambda domain, libvirt: domain.destroy(), Power.STOPPED, "domain_destroyed"),
            (
                lambda domain, libvirt: domain.coreDump("/dev/null", libvirt.VIR_DUMP_CRASH),
                Power.STOPPED,
                "domain_crashed",
            ),
            (lambda domain, libvirt: domain.suspend(), Power.PAUSED, "domain_changed_outside"),
            (lambda domain, libvirt: domain.managedSave(), Power.SUSPENDED, "domain_changed_outside"),
        ],
        ids=["shut down", "destroyed", "crashed", "paused", "saved"],
    )
    @pytest.mark.parametrize("is_agent_away", [False, True])
    def test_it_is_told_once(
        self,
        bench: LibvirtBench,
        happens: Callable[[Any, Any], None],
        power: Power,
        reason: str,
        is_agent_away: bool,
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        happens(bench.domain(A), bench.libvirt)
        expected: Any = reached(0, power, reason)
        if is_agent_away:
            driver, expected = bench.driver(), Built(A, expected.observed)
            assert list(driver.found()) == [A]

        assert bench.told(driver) == [expected]
        assert bench.power(A) is power
        assert bench.told(driver) == []

    def test_its_reason_is_told_by_the_next_agent_where_the_first_one_died_before_it_could(
        self, bench: LibvirtBench
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        bench.domain(A).destroy()
        driver.work()  # Its state is written, and nobody fetches the report.
        again = bench.driver()
        assert list(again.found()) == [A]

        assert bench.told(again) == [Built(A, Observed(0, Power.STOPPED, "domain_destroyed"))]
        again.apply(A, desired(1))
        assert bench.told(again) == [reached(1, Power.RUNNING)]
        last = bench.driver()
        last.found()
        assert bench.told(last) == [Built(A, Observed(1, Power.RUNNING))]

    def test_one_that_somebody_starts_is_told(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        run(bench, driver)
        driver.apply(A, desired(1, Power.STOPPED))
        bench.told(driver)
        bench.domain(A).create()

        assert bench.told(driver) == [reached(1, Power.RUNNING, "domain_changed_outside")]

    def test_one_that_is_gone_is_lost(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        run(bench, driver)
        bench.domain(A).destroy()
        bench.domain(A).undefine()

        assert bench.told(driver) == [Failed(A, "domain_lost")]

    @pytest.mark.parametrize("is_new_agent", [False, True])
    def test_the_disk_of_one_whose_domain_is_gone_stays_until_it_is_ended(
        self, bench: LibvirtBench, caplog: pytest.LogCaptureFixture, is_new_agent: bool
    ) -> None:
        driver = bench.driver()
        run(bench, driver, B)
        run(bench, driver, disk=1)
        xml = bench.domain(A).XMLDesc()
        bench.domain(A).destroy()
        bench.domain(A).undefine()
        if is_new_agent:
            driver = bench.driver()
            assert list(driver.found()) == [A, B]
            lost = Observed(0, Power.STOPPED, "domain_lost")
            assert sorted(bench.told(driver), key=str) == [Built(A, lost), Built(B)]
        else:
            assert bench.told(driver) == [reached(0, Power.STOPPED, "domain_lost")]
        assert "its disk is here" in caplog.text
        driver.apply(A, desired(1, Power.RUNNING, reboots=1))
        assert bench.told(driver) == [reached(1, Power.STOPPED, "domain_lost")]
        assert f"{A.uuid}.1" in bench.files()

        # Defined again from a copy, it is there again, and nothing is done that was refused.
        bench.outside.defineXML(xml)
        assert bench.told(driver) == [reached(1, Power.STOPPED, "domain_changed_outside")]
        driver.apply(A, desired(2, Power.RUNNING, reboots=1))
        assert bench.told(driver) == [reached(2, Power.RUNNING)]
        driver.destroy(A)
        assert bench.told(driver) == [Destroyed(A)]
        assert bench.files() == [f"{B.uuid}.1"]

    def test_a_disk_without_a_domain_that_nobody_wants_any_more_does_not_stay(
        self, bench: LibvirtBench
    ) -> None:
        driver = bench.driver()
        run(bench, driver, B)
        run(bench, driver, disk=1)
        bench.domain(A).destroy()
        bench.domain(A).undefine()
        again = bench.driver()
        assert list(again.found()) == [A, B]

        again.destroy(A)

        assert Destroyed(A) in bench.told(again)
        assert bench.files() == [f"{B.uuid}.1"]

    @pytest.mark.parametrize("left", [None, "<instance/>", "<instance uuid='a' attempt='one' folder='f'/>"])
    def test_a_damaged_marker_is_written_again(self, bench: LibvirtBench, left: str | None) -> None:
        driver = bench.driver()
        run(bench, driver, disk=1)
        driver.apply(A, desired(1, Power.STOPPED))
        bench.told(driver)
        damage(bench, left)

        assert bench.told(driver) == []

        again = bench.driver()
        assert list(again.found()) == [A]
        assert bench.told(again) == [Built(A, Observed(1, Power.STOPPED))]

    @pytest.mark.parametrize("left", [None, "<instance/>", "<instance uuid='a' attempt='one' folder='f'/>"])
    def test_one_that_is_found_with_a_damaged_marker_stays_as_it_is(
        self, bench: LibvirtBench, caplog: pytest.LogCaptureFixture, left: str | None
    ) -> None:
        run(bench, bench.driver(), disk=1)
        before = bench.domain(A).metadata(2, "urn:zonesched:instance:1")
        damage(bench, left)

        driver = bench.driver()
        assert list(driver.found()) == [A]
        driver.spawn(wanted(A, is_active=True, disk=1))
        assert bench.told(driver) == []
        [said] = [record.getMessage() for record in caplog.records]
        assert said.startswith(f"instance {A.uuid}: the marker in the metadata of its domain cannot be read")
        assert (bench.power(A), bench.files()) == (Power.RUNNING, [f"{A.uuid}.1"])

        damage(bench, before)
        assert bench.told(driver) == [Built(A)]

    def test_one_with_a_damaged_marker_ends_where_nobody_wants_it(self, bench: LibvirtBench) -> None:
        run(bench, bench.driver(), disk=1)
        damage(bench, None)

        driver = bench.driver()
        driver.found()
        driver.destroy(A)

        assert bench.told(driver) == [Destroyed(A)]
        assert (bench.names(), bench.files()) == ([], [])

    def test_one_that_runs_is_not_lost_when_somebody_undefines_it(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        run(bench, driver)
        bench.domain(A).undefine()
        assert bench.told(driver) == []
        again = bench.driver()
        assert list(again.found()) == [A]
        assert bench.told(again) == [Built(A)]

        again.destroy(A)
        assert bench.told(again) == [Destroyed(A)]
        assert bench.names() == []

    def test_one_that_ends_right_after_its_start_is_not_started_over_and_over(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        driver.apply(A, desired(1, Power.STOPPED))
        bench.told(driver)

        def start(domains: Any, key: Key) -> None:
            domains._lookup(key).create()
            domains._lookup(key).shutdown()

        monkeypatch.setattr(bench.modules["libvirt_domains"].Domains, "start", start)
        driver.apply(A, desired(2))

        assert bench.told(driver) == [reached(2, Power.STOPPED, "domain_ended")]


class TestAway:
    def test_a_libvirt_that_does_not_answer_says_nothing_of_the_instances(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        domains, away = bench.modules["libvirt_domains"].Domains, bench.modules["libvirt_domains"].LibvirtAway

        def opened(_: Any) -> Any:
            raise away("the socket is gone")

        with monkeypatch.context() as broken:
            broken.setattr(domains, "_opened", opened)
            driver.apply(A, desired(1, Power.STOPPED))
            driver.spawn(wanted(B))
            assert bench.told(driver) == []

        assert sorted(bench.told(driver), key=repr) == [Built(B), reached(1, Power.STOPPED)]
        assert [record.getMessage() for record in caplog.records] == [
            "libvirt is unavailable, leaving all instances as they are: the socket is gone",
            "libvirt is available again",
        ]

    def test_a_closed_connection_is_opened_again(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        monkeypatch.setattr(bench.libvirt.virConnect, "isAlive", lambda _: 0)
        driver.apply(A, desired(1, Power.STOPPED))

        assert bench.told(driver) == [reached(1, Power.STOPPED)]


class TestHung:
    def test_what_the_zone_asks_again_during_a_step_waits_once(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver, applied = bench.driver(), list[int]()
        run(bench, driver)

        def pause(domains: Any, key: Key) -> None:
            for _ in range(100):
                # With each of its lists, while other threads work.
                driver.apply(A, desired(2, Power.STOPPED))
                driver.work()
            domains._lookup(key).suspend()

        apply = bench.modules["libvirt"].LibvirtInstance.apply

        def count(instance: Any, what: Desired) -> None:
            applied.append(what.generation)
            apply(instance, what)

        monkeypatch.setattr(bench.modules["libvirt_domains"].Domains, "pause", pause)
        monkeypatch.setattr(bench.modules["libvirt"].LibvirtInstance, "apply", count)
        driver.apply(A, desired(1, Power.PAUSED))

        assert bench.told(driver) == [reached(2, Power.STOPPED)]
        assert applied == [1, 2]


class TestFencing:
    def test_an_agent_that_is_to_fence_does_not_start(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        driver.hold(Lease())
        with pytest.raises(ConfigError, match="cannot fence"):
            driver.hold(Lease(1, until_s=60.0))
        assert driver.lease() == Lease()


class TestMoves:
    def test_it_does_not_leave_and_goes_on(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        run(bench, driver)
        number = bench.domain(A).ID()

        driver.leave(replace(wanted(A), leaves_for=2))
        assert bench.told(driver) == [Left(A, 2, "move_unsupported")]
        driver.come_back(wanted(A, is_active=True))
        assert bench.told(driver) == [Built(A)]
        assert bench.domain(A).ID() == number

    def test_one_that_is_not_here_cannot_leave(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        driver.leave(replace(wanted(A), leaves_for=2))
        assert bench.told(driver) == [Failed(A, "domain_lost")]

    def test_one_from_another_host_is_not_built_anew(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        driver.spawn(replace(wanted(A2), moved_from=1))
        assert bench.told(driver) == [Failed(A2, "move_unsupported")]
        assert bench.names() == []


class TestDisks:
    def test_a_disk_is_qcow2_over_the_file_of_its_image(self, bench: LibvirtBench, images: Path) -> None:
        run(bench, bench.driver(image_folder=str(images)), image="cirros", disk=1)

        assert self.disk(bench) == (2**30, f"{images}/cirros.qcow2", "qcow2")
        assert f"{A.uuid}.1/disk.qcow2" in bench.domain(A).XMLDesc()

    def test_a_flavor_without_a_disk_has_that_of_its_image(self, bench: LibvirtBench, images: Path) -> None:
        run(bench, bench.driver(image_folder=str(images)), image="alpine")

        assert self.disk(bench) == (2**20, f"{images}/alpine.raw", "raw")

    def test_without_a_folder_of_images_a_disk_begins_empty(self, bench: LibvirtBench, images: Path) -> None:
        run(bench, bench.driver(), image="cirros", disk=2)

        assert self.disk(bench) == (2 * 2**30, None, None)

    @pytest.mark.parametrize("name", ["", "debian", "../secret", "/etc/passwd", ".hidden", "a" * 300, "a\0b"])
    def test_an_image_without_a_file_fails(self, bench: LibvirtBench, images: Path, name: str) -> None:
        (images.parent / "secret.raw").write_bytes(b"")
        (images / ".hidden.raw").write_bytes(b"")
        driver = bench.driver(image_folder=str(images))
        driver.spawn(wanted(A, image=name, disk=1))

        assert bench.told(driver) == [Failed(A, "image_file_missing")]
        assert (bench.names(), bench.files()) == ([], [])

    @pytest.mark.parametrize("length", [250, 255])
    def test_an_image_whose_name_is_too_long_for_a_file_fails_alone(
        self, bench: LibvirtBench, images: Path, length: int
    ) -> None:
        driver = bench.driver(image_folder=str(images))
        driver.spawn(wanted(A, image="a" * length, disk=1))
        driver.spawn(wanted(B, image="cirros", disk=1))

        assert sorted(bench.told(driver), key=repr) == [Built(B), Failed(A, "image_file_missing")]

    def test_images_on_a_server_that_is_gone_hold_up_nothing_that_needs_none(
        self,
        bench: LibvirtBench,
        images: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(bench.modules["libvirt_disks"], "LOOK_UP_S", 0.5)
        driver = bench.driver(image_folder=str(images))
        run(bench, driver, B, image="cirros", disk=1)
        with dead_folder(images):
            driver.spawn(wanted(A, image="cirros", disk=1))
            driver.apply(B, desired(1, Power.STOPPED))
            assert bench.told(driver, rounds=3) == [
                reached(1, Power.STOPPED, key=B),
                Failed(A, "image_folder_away"),
            ]
            again = bench.driver(image_folder=str(images))
            again.found()
            again.destroy(B)
            assert Destroyed(B) in bench.told(again)

        assert f"{images} does not answer" in caplog.text

    def test_an_image_larger_than_the_flavors_disk_fails(self, bench: LibvirtBench, images: Path) -> None:
        qemu_img("create", "-q", "-f", "qcow2", str(images / "large.qcow2"), "2G")
        driver = bench.driver(image_folder=str(images))
        driver.spawn(wanted(A, image="large", disk=1))

        assert bench.told(driver) == [Failed(A, "image_too_large")]

    def test_a_file_that_is_no_image_fails(self, bench: LibvirtBench, images: Path) -> None:
        (images / "broken.qcow2").write_bytes(b"broken")
        driver = bench.driver(image_folder=str(images))
        driver.spawn(wanted(A, image="broken", disk=1))

        assert bench.told(driver) == [Failed(A, "disk_not_made")]

    def test_the_format_is_not_guessed_from_what_is_in_a_file(
        self, bench: LibvirtBench, images: Path
    ) -> None:
        (images / "alpine.raw").write_bytes((images / "cirros.qcow2").read_bytes())
        run(bench, bench.driver(image_folder=str(images)), image="alpine", disk=1)

        assert self.disk(bench)[2] == "raw"

    def test_a_rebuild_makes_the_disk_anew_and_starts_it_once(
        self, bench: LibvirtBench, images: Path
    ) -> None:
        driver = bench.driver(image_folder=str(images))
        run(bench, driver, image="cirros", disk=1)
        rebuilt = desired(1, rebuilds=1, image={"id": "i", "name": "alpine"})
        driver.apply(A, rebuilt)

        assert bench.told(driver) == [reached(1, Power.RUNNING, rebuilds=1)]
        assert self.disk(bench)[1:] == (f"{images}/alpine.raw", "raw")
        assert bench.power(A) is Power.RUNNING
        driver.apply(A, replace(rebuilt, generation=2, power=Power.STOPPED))
        assert bench.told(driver) == [reached(2, Power.STOPPED, rebuilds=1)]

    def test_a_rebuild_leaves_nothing_of_the_console(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        run(bench, driver, disk=1)
        console = bench.folder / "instances" / f"{A.uuid}.1" / "console.log"
        for name in ("console.log", "console.log.0"):
            console.with_name(name).write_text("of the former image")
        disk = console.with_name("disk.new")
        disk.mkdir()
        driver.apply(A, desired(1, rebuilds=1))
        # One that fails leaves the disk as it is, and what its guest has printed.
        assert bench.told(driver) == [reached(1, Power.STOPPED, "disk_not_made")]
        assert console.read_text() == "of the former image"

        disk.rmdir()
        driver.apply(A, desired(2, rebuilds=1))

        assert bench.told(driver) == [reached(2, Power.RUNNING, rebuilds=1)]
        assert not list(console.parent.glob("console*"))

    def test_a_rebuild_from_an_image_without_a_file_leaves_it_as_it_is(
        self, bench: LibvirtBench, images: Path
    ) -> None:
        driver = bench.driver(image_folder=str(images))
        run(bench, driver, image="cirros", disk=1)
        number = bench.domain(A).ID()
        driver.apply(A, desired(1, rebuilds=1, image={"id": "i", "name": "debian"}))

        assert bench.told(driver) == [reached(1, Power.RUNNING, "image_file_missing")]
        assert bench.domain(A).ID() == number

    @staticmethod
    def disk(bench: LibvirtBench) -> tuple[Any, ...]:
        path = bench.folder / "instances" / f"{A.uuid}.1" / "disk.qcow2"
        found = json.loads(qemu_img("info", "--output=json", "-f", "qcow2", str(path)))
        names = ("virtual-size", "backing-filename", "backing-filename-format")
        return tuple(found.get(name) for name in names)


class TestDeath:
    """An agent that is killed at any change of libvirt or the disks; the next one is asked for the same."""

    @pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("call", range(1, 5))
    def test_while_it_builds(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch, call: int, is_done: bool
    ) -> None:
        with monkeypatch.context() as deadly:
            count = dies_at(deadly, bench, call, is_done=is_done)
            driver = bench.driver()
            driver.spawn(wanted(A))
            with pytest.raises(Killed):
                bench.told(driver)
            assert count() == call
        again = bench.driver()
        found = list(again.found())
        again.spawn(wanted(A))

        assert bench.told(again) == [Built(A)]
        assert found in ([], [A])
        assert (bench.names(), bench.files()) == ([f"{A.uuid}.1"], [f"{A.uuid}.1"])

    @pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("call", range(1, 5))
    def test_while_it_builds_what_is_then_no_longer_wanted(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch, call: int, is_done: bool
    ) -> None:
        with monkeypatch.context() as deadly:
            dies_at(deadly, bench, call, is_done=is_done)
            driver = bench.driver()
            driver.spawn(wanted(A))
            with pytest.raises(Killed):
                bench.told(driver)
        again = bench.driver()
        for key in again.found():
            again.destroy(key)
        bench.told(again)

        assert (bench.names(), bench.files()) == ([], [])

    @pytest.mark.parametrize("is_wanted", [False, True])
    def test_while_libvirt_defines_a_domain_that_the_next_agent_does_not_find(
        self, bench: LibvirtBench, is_wanted: bool
    ) -> None:
        again = bench.driver()
        assert list(again.found()) == []
        if is_wanted:
            again.spawn(wanted(A))
        define_for_a_dead_agent(bench, A)

        if is_wanted:
            assert bench.told(again) == [Built(A)]
        else:
            assert bench.told(again)[0] == Found((A,))
            again.destroy(A)
            assert bench.told(again) == [Destroyed(A)]
            assert (bench.names(), bench.files()) == ([], [])

    @pytest.mark.parametrize("does_start", [False, True])
    def test_while_libvirt_starts_a_domain(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch, does_start: bool
    ) -> None:
        # given a domain that libvirt is about to start for an agent that was killed
        define_for_a_dead_agent(bench, A)
        domains = bench.modules["libvirt_domains"].Domains
        real = domains._read

        def starting(self: Any, domain: Any) -> Any:
            found = real(self, domain)
            return found and replace(found, power=Power.PAUSED, why="", is_starting=True)

        again = bench.driver()
        with monkeypatch.context() as early:
            early.setattr(domains, "_read", starting)
            assert list(again.found()) == [A]
            assert bench.told(again) == []
        # when that comes to an end
        if does_start:
            bench.domain(A).create()
        # then what the next agent tells is that alone
        expected = Built(A) if does_start else Failed(A, "domain_ended")
        assert bench.told(again) == [expected]

    @pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("call", range(1, 5))
    @pytest.mark.parametrize("what", ["reboot", "rebuild"])
    def test_while_it_reboots_or_rebuilds(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch, call: int, is_done: bool, what: str
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        number = bench.domain(A).ID()
        one = desired(1, rebuilds=1) if what == "rebuild" else desired(1, reboots=1)
        with monkeypatch.context() as deadly:
            count = dies_at(deadly, bench, call, is_done=is_done)
            driver.apply(A, one)
            with pytest.raises(Killed):
                bench.told(driver)
            assert count() == call
        again = bench.driver()
        assert list(again.found()) == [A]
        again.spawn(wanted(A, is_active=True))
        [found] = bench.told(again)
        assert isinstance(found, Built)
        if found.observed.generation == 0:
            again.apply(A, one)
            assert bench.told(again) == [reached(1, Power.RUNNING, rebuilds=one.rebuilds)]
        else:
            assert found.observed == Observed(1, Power.RUNNING, rebuilds=one.rebuilds)

        assert bench.domain(A).ID() == number + 1

    @pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("call", range(1, 4))
    def test_while_it_ends(
        self, bench: LibvirtBench, monkeypatch: pytest.MonkeyPatch, call: int, is_done: bool
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        with monkeypatch.context() as deadly:
            dies_at(deadly, bench, call, is_done=is_done)
            driver.destroy(A)
            with pytest.raises(Killed):
                bench.told(driver)
        again = bench.driver()
        again.found()
        again.destroy(A)

        assert Destroyed(A) in bench.told(again)
        assert (bench.names(), bench.files()) == ([], [])


class TestHost:
    def test_it_is_as_libvirt_describes_it(self, bench: LibvirtBench) -> None:
        driver = bench.driver()
        host = driver.host()

        assert (host.name, host.inventories["VCPU"], host.inventories["MEMORY_MB"]) == (
            bench.outside.getHostname(),
            {"total": 16},
            {"total": 3072},
        )
        assert host.inventories["DISK_GB"]["total"] > 0
        assert host.capabilities["hypervisor_type"] == "TEST"
        assert host.capabilities["supported_instances"] == [["i686", "test", "hvm"]]

    def test_its_traits_are_what_it_does(self, bench: LibvirtBench) -> None:
        assert bench.driver().traits == {"COMPUTE_PAUSE", "COMPUTE_SUSPEND"}


def test_without_its_bindings_the_agent_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("zonesched.compute.libvirt")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "libvirt", None)

    with pytest.raises(DriverUnknown, match=r"zonesched\[libvirt\]"):
        load_driver("libvirt")
