"""Work of a zone that has so many instances: lists, one server, one boot, an audit, a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.zone_trees.client import ZoneClient
from benchmarks.zone_trees.processes import ZoneProcess
from benchmarks.zone_trees.tree import Tree

PAGE = 1000
AUDIT_TIMEOUT_S = 3600.0


def look(tenant: ZoneClient, say: Callable[[str], None]) -> Mapping[str, float]:
    """Milliseconds of the calls that a user makes."""
    found: dict[str, float] = {}

    def timed(name: str, path: str) -> Mapping[str, object]:
        began_at = time.monotonic()
        answer: Mapping[str, object] = tenant.call("GET", path)
        found[name] = round(1000 * (time.monotonic() - began_at), 1)
        say(f"{name}: {found[name]}")
        return answer

    servers = timed("first_page_ms", f"/servers?limit={PAGE}")["servers"]
    assert isinstance(servers, list)
    timed("next_page_ms", f"/servers?limit={PAGE}&marker={servers[-1]['id']}")
    shown = timed("show_ms", f"/servers/{servers[0]['id']}")["server"]
    assert isinstance(shown, dict)
    boots = timed("boots_ms", "/reservations?limit=20")["reservations"]
    assert isinstance(boots, list)
    timed("boot_ms", f"/reservations/{boots[0]['id']}")
    return found


def audit(admin: ZoneClient) -> tuple[int, float]:
    """The inconsistencies of the whole tree and its reports that are cut, and the seconds until they came."""
    patient = ZoneClient.like(admin, timeout_s=AUDIT_TIMEOUT_S)
    began_at = time.monotonic()
    told = patient.call("GET", "/audit?tree=true")
    reports = [told, *told["children"]]
    found = [len(report["inconsistencies"]) + (not report.get("complete", True)) for report in reports]
    return sum(found), round(time.monotonic() - began_at, 1)


def restarted(tree: Tree, number: int) -> float:
    """The seconds from the start of a zone that was stopped to its first answer."""
    zone = tree.zones[number]
    zone.terminate()
    zone.wait(60.0)
    began_at = time.monotonic()
    again = ZoneProcess(zone.site)
    try:
        again.wait_until_ready()
        return round(time.monotonic() - began_at, 2)
    finally:
        again.terminate()
        again.wait_or_kill(time.monotonic() + 30.0)


def peak_mb(pids: list[int]) -> float:
    """The highest resident memory of the largest of these processes and their children, in 10**6 bytes."""
    peaks = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if int(fields["Pid"]) in pids or int(fields["PPid"]) in pids:
            peaks.append(int(fields["VmHWM"].split()[0]) * 1024 / 1e6)
    return round(max(peaks), 1)


def database_mb(folder: Path) -> float:
    """Size of all databases below a folder, in 10**6 bytes."""
    files = [file for file in folder.rglob("*") if ".sqlite" in file.name]
    return round(sum(file.stat().st_size for file in files) / 1e6, 1)
