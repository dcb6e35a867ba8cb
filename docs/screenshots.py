"""Make the pictures of docs/dashboard.md: a busy demo, looked at in a browser.

Run it in a checkout with its test environment and Chromium: `.venv/bin/python docs/screenshots.py`.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]
sys.path.insert(0, str(CHECKOUT))

from tests.builders.browser import a_browser  # noqa: E402
from tests.builders.real_processes import eventually, free_ports  # noqa: E402
from zonesched.demo.processes import Processes  # noqa: E402
from zonesched.demo.run import DemoRun  # noqa: E402
from zonesched.demo.tree import DemoZone  # noqa: E402
from zonesched.demo.waiting import Waiter  # noqa: E402
from zonesched.seams import SystemClock  # noqa: E402

PICTURES = CHECKOUT / "docs" / "pictures"
HOSTS = (("root", 300), ("north", 120), ("south", 80))
"""The zones with their numbers of hosts."""
BOOTS = (("web", 180), ("batch", 900), ("cache", 60), ("huge", 9000))
"""Names and numbers of instances."""


def busy(run: DemoRun) -> str:
    """Boot, disable some hosts; return the id of the boot to show."""
    root = run.admin(run.root)
    run.boot(300)
    made = []
    for name, count in BOOTS:
        server = {"name": name, "flavorRef": "demo.small", "num_instances": count}
        made.append(root.call("POST", "/zones/boot", {"server": server})["reservation_id"])
    for host in run.hypervisors(run.root)[:4]:
        change = {"status": "disabled", "disabled_reason": "new fans"}
        root.call("PUT", f"/os-services/{host['id']}", change)
    for id in made[:3]:
        eventually(f"boot {id}", lambda id=id: run.reservation(id)["state"] != "BUILD", 180)
    return str(made[1])


def main() -> None:
    """Start a tree, make it busy, and take the pictures."""
    PICTURES.mkdir(exist_ok=True)
    clock, processes = SystemClock(), Processes()
    with tempfile.TemporaryDirectory() as folder, a_browser() as browser:
        port = free_ports(len(HOSTS))
        zones = [
            DemoZone(name, "root" if number else "", min(number, 1), port + number, hosts)
            for number, (name, hosts) in enumerate(HOSTS)
        ]
        run = DemoRun(zones, Path(folder), clock, processes, Waiter(clock, time.sleep, processes.check))
        try:
            run.start_zones()
            run.start_agents()
            run.join()
            run.wait_until_ready()
            boot = busy(run)
            take(browser, run, f"boots/{boot}", "boot", "light")
            take(browser, run, "hosts", "hosts", "dark", until="canvas[data-hosts]")
            take(browser, run, "boot", "form", "light")
            take(browser, run, "boots", "phone", "dark", width=390)
            south = next(zone for zone in zones if zone.name == "south")
            kill(Path(folder) / south.name / "zone.conf")
            take(browser, run, "tree", "tree", "light", until=".node.offline")
        finally:
            processes.stop()


def take(
    browser: Any, run: DemoRun, path: str, name: str, scheme: str, *, width: int = 1180, until: str = "h1"
) -> None:
    """Take one picture as a user who has just signed in."""
    page = browser.new_page(viewport={"width": width, "height": 760}, color_scheme=scheme)
    link = run.admin(run.root).call("POST", "/sign-in-links")["sign_in_link"]["path"]
    page.goto(run.root.url + link)
    page.click("button")
    page.goto(f"{run.root.url}/dashboard/{path}")
    # A zone notices after some polls that a child was killed.
    page.wait_for_selector(until, timeout=180_000)
    page.wait_for_timeout(1500)
    page.screenshot(path=str(PICTURES / f"{name}.png"))
    page.close()


def kill(config: Path) -> None:
    """Kill the zone of a configuration file, with all its processes."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        pid = int(file.parent.name)
        try:
            is_it = str(config) in file.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if is_it and os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
