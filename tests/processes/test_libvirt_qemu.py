"""Instances that are QEMU's processes, without KVM, under a libvirt that runs inside this process."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.libvirt_bench import LibvirtBench, bindings, desired, wanted
from tests.builders.private_servers import leave_out, program
from tests.builders.real_processes import eventually
from zonesched.compute.desired_state import Observed, Power
from zonesched.compute.machine import Built, Changed, Destroyed, DriverEvent, Key
from zonesched.seams import ThreadExecutor

pytestmark = pytest.mark.slow

A = Key("0190f7a2-64b1-7c1e-8000-00000000000a", 1)
B = Key("0190f7a2-64b1-7c1e-8000-00000000000b", 1)
CONF = """\
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
"""


@pytest.fixture(scope="module")
def libvirt() -> Iterator[Any]:
    """The bindings with an event loop, which QEMU's driver needs where no daemon has one for it."""
    program("qemu-system-x86_64")
    program("qemu-img")
    if os.geteuid() != 0:
        pytest.skip("QEMU's driver runs without a daemon for root alone")
    libvirt, ends = bindings(), threading.Event()
    libvirt.virEventRegisterDefaultImpl()
    libvirt.virEventAddTimeout(100, lambda *_: None, None)

    def run() -> None:
        while not ends.is_set():
            libvirt.virEventRunDefaultImpl()

    thread = threading.Thread(target=run)
    thread.start()
    yield libvirt
    ends.set()
    thread.join()


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    """The folder of QEMU's driver, of which a process has one."""
    # Its sockets have long names, and a socket's path at most 107 bytes.
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "etc").mkdir()
        (Path(root) / "etc" / "qemu.conf").write_text(CONF)
        yield root


@pytest.fixture
def bench(libvirt: Any, root: str, tmp_path: Path) -> Iterator[LibvirtBench]:
    try:
        bench = LibvirtBench(tmp_path / "agent", f"qemu:///embed?root={root}", "qemu")
    except libvirt.libvirtError as error:
        leave_out(f"libvirt's QEMU driver does not start: {error}")
    try:
        yield bench
    finally:
        bench.end()


def processes(bench: LibvirtBench) -> dict[int, str]:
    """The command lines of QEMU's processes that run an instance of this bench, by their pids."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        line = " ".join(words)
        if "qemu-system" in words[0] and f"{bench.folder}/" in line:
            found[int(path.parent.name)] = line
    return found


def test_an_instance_is_a_process_of_qemu_from_its_start_to_its_end(bench: LibvirtBench) -> None:
    driver = bench.driver()
    host = driver.host()
    assert host.capabilities["hypervisor_type"] == "QEMU"
    assert host.inventories["VCPU"]["total"] == os.cpu_count()

    driver.spawn(wanted(A, ram=128, disk=1))
    assert bench.told(driver) == [Built(A)]
    [line] = processes(bench).values()
    assert f"{A.uuid}.1/disk.qcow2" in line
    assert (bench.folder / "instances" / f"{A.uuid}.1" / "console.log").exists()

    changes = [
        (desired(1, Power.PAUSED), 1),
        (desired(2, Power.SUSPENDED), 0),
        (desired(3, Power.RUNNING), 1),
        # Nothing boots from an empty disk, so nobody hears that it is to shut down.
        (desired(4, Power.STOPPED), 0),
        (desired(5, Power.RUNNING, reboots=1), 1),
    ]
    for one, running in changes:
        driver.apply(A, one)
        assert bench.told(driver) == [Changed(A, Observed(one.generation, one.power))]
        assert len(processes(bench)) == running

    # What a backup by libvirt's own tools leaves holds up no end.
    bench.domain(A).checkpointCreateXML("<domaincheckpoint><name>backup-1</name></domaincheckpoint>")
    driver.destroy(A)
    assert bench.told(driver) == [Destroyed(A)]
    assert processes(bench) == {}
    assert (bench.names(), bench.files()) == ([], [])


def test_a_qemu_that_hangs_holds_up_no_other_instance_and_ends_when_that_is_asked_for(
    bench: LibvirtBench, caplog: pytest.LogCaptureFixture
) -> None:
    driver, executor, told = bench.driver(), ThreadExecutor(), list[DriverEvent]()

    def has_told(event: DriverEvent) -> bool:
        told.extend(driver.poll())
        return event in told

    for number in range(getattr(driver, "workers", 1)):
        executor.start_loop(f"driver-{number}", driver.work)
    try:
        driver.spawn(wanted(A, ram=128, disk=1))
        eventually("it runs", lambda: has_told(Built(A)))
        [pid] = processes(bench)
        # As where its disk is on a server that is gone: what libvirt asks it has no answer.
        os.kill(pid, signal.SIGSTOP)
        driver.apply(A, desired(1, Power.PAUSED))
        occupied = bench.libvirt.VIR_DOMAIN_CONTROL_OCCUPIED
        eventually("libvirt waits for it", lambda: bench.domain(A).controlInfo()[0] == occupied)

        driver.spawn(wanted(B, ram=128, disk=1))
        eventually("its neighbour is built", lambda: has_told(Built(B)))
        driver.apply(B, desired(1, Power.PAUSED))
        eventually("its neighbour is paused", lambda: has_told(Changed(B, Observed(1, Power.PAUSED))))

        driver.destroy(A)
        bench.clock.advance(120)
        eventually("it has ended", lambda: has_told(Destroyed(A)))
        assert [record.getMessage() for record in caplog.records if "hangs" in record.getMessage()] == [
            f"libvirt, QEMU or a disk hangs: a step has taken 60 s, of 1 instances, such as {A.uuid}"
        ]
        assert pid not in processes(bench)
    finally:
        executor.stop()


def test_a_qemu_that_hangs_in_another_state_than_it_was_left_in_holds_up_no_other_instance(
    bench: LibvirtBench,
) -> None:
    driver, executor, told = bench.driver(), ThreadExecutor(), list[DriverEvent]()

    def has_told(event: DriverEvent) -> bool:
        told.extend(driver.poll())
        return event in told

    for number in range(driver.workers):
        executor.start_loop(f"driver-{number}", driver.work)
    try:
        for key in (A, B):
            driver.spawn(wanted(key, ram=128, disk=1))
        eventually("they run", lambda: has_told(Built(A)) and has_told(Built(B)))
        [pid] = [pid for pid, line in processes(bench).items() if A.uuid in line]
        # As QEMU itself pauses one whose disk is full, and hangs when the disk's server is gone.
        bench.domain(A).suspend()
        os.kill(pid, signal.SIGSTOP)
        asking = threading.Thread(target=lambda: bench.domain(A).memoryStats(), daemon=True)
        asking.start()
        occupied = bench.libvirt.VIR_DOMAIN_CONTROL_OCCUPIED
        eventually("libvirt waits for it", lambda: bench.domain(A).controlInfo()[0] == occupied)

        bench.clock.advance(2)
        eventually("a thread is at it", lambda: A in driver._at_work)
        driver.apply(B, desired(1, Power.PAUSED))
        paused = Changed(B, Observed(1, Power.PAUSED))
        # Libvirt gives up to wait for a domain after 30 seconds.
        eventually("its neighbour is paused", lambda: has_told(paused), timeout_s=20.0)
    finally:
        os.kill(pid, signal.SIGCONT)
        executor.stop()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A state folder with room for 8 MB."""
    folder = tmp_path / "agent"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def writer() -> bytes:
    """A disk that boots and writes each 128th of its sectors, by its BIOS."""
    start = 0x7C00
    code = "31c0 8ed8 be{packet} b80043 b280 cd13 668106{sector}80000000 ebee"
    length = len(bytes.fromhex(code.format(packet="0000", sector="0000")))
    packet, sector = (struct.pack("<H", start + length + at).hex() for at in (0, 8))
    program = bytes.fromhex(code.format(packet=packet, sector=sector))
    return (program + struct.pack("<BBHHHQ", 16, 0, 1, start, 0, 128)).ljust(510, b"\0") + b"\x55\xaa"


def test_one_whose_disk_has_no_room_left_is_paused_with_that_reason(
    small_disk: Path, tmp_path: Path, bench: LibvirtBench
) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "writer.raw").write_bytes(writer().ljust(2**20, b"\0"))
    driver, full = bench.driver(image_folder=str(tmp_path / "images")), "domain_disk_failed"
    driver.spawn(wanted(A, image="writer", ram=64, disk=1))
    assert bench.told(driver) == [Built(A)]

    eventually("it is paused", lambda: bench.power(A) is Power.PAUSED)
    assert bench.told(driver) == [Changed(A, Observed(0, Power.PAUSED, full))]

    driver.apply(A, desired(1))
    told = bench.told(driver)
    eventually("it is paused again", lambda: bench.power(A) is Power.PAUSED)
    told += bench.told(driver)
    assert told[-1] == Changed(A, Observed(1, Power.PAUSED, full))
