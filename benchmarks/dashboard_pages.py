"""Measure what each page of the dashboard costs a large zone: benchmarks/dashboard_pages.py (see --help)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

# Not this folder: its select.py would stand in for Python's own module.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.zone_trees.cpu import cpu_seconds
from benchmarks.zone_trees.filled import FLAVOR, fill, register
from benchmarks.zone_trees.processes import ZoneSite, free_ports
from benchmarks.zone_trees.run_folder import run_folder
from benchmarks.zone_trees.tree import running_tree
from benchmarks.zone_trees.viewer import Viewer

PAGES = (
    "news",
    "tree",
    "hosts",
    "hosts/layout",
    "hosts/heat?class=VCPU",
    "hosts/{host}",
    "boots",
    "boots/{reservation}",
    "boot",
    "servers",
    "servers?status=ACTIVE",
    "servers?name=vm-9",
    "servers/{server}",
    "flavors",
    "limits",
    "aggregates",
    "users",
    "audit",
)


def say(text: str) -> None:
    """Show progress."""
    click.echo(f"dashboard: {text}", err=True)


@click.command()
@click.option("--hosts", "host_count", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--servers", "server_count", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--times", type=click.IntRange(min=1), default=10, show_default=True, help="Of each page.")
def main(host_count: int, server_count: int, times: int) -> None:
    """Read each page several times; the last line is JSON.

    By page: `cpu_ms` of all processes of the zone, the longest answer in `longest_ms`, and its size in `kb`.
    The first answer of a page is not counted.
    """
    with run_folder("dashboard", keep=False, say=say) as folder:
        site = ZoneSite("root", folder / "root", free_ports(1)[0])
        with running_tree([[site]], lambda agent, *_: register(agent, host_count), say) as tree:
            tree.root_admin.call("POST", "/flavors", FLAVOR)
            named = fill(tree.root_admin, tree.tenant, server_count, say)
            link = tree.root_admin.call("POST", "/sign-in-links")["sign_in_link"]["path"]
            viewer = Viewer(site.port, link)
            pid = tree.zones[0].pid
            pages = {page: measure(viewer, page.format(**named), pid, times) for page in PAGES}
    line = {"benchmark": "dashboard_pages", "hosts": host_count, "servers": server_count, "pages": pages}
    click.echo(json.dumps(line))


def measure(viewer: Viewer, page: str, pid: int, times: int) -> dict[str, float]:
    """Read one page so many times."""
    content = viewer.get(page)
    before, longest_s = cpu_seconds([pid]), 0.0
    for _ in range(times):
        began_at = time.monotonic()
        viewer.get(page)
        longest_s = max(longest_s, time.monotonic() - began_at)
    cpu_ms = 1000 * (cpu_seconds([pid]) - before) / times
    found = {"cpu_ms": round(cpu_ms, 1), "longest_ms": round(1000 * longest_s, 1), "kb": len(content) // 1024}
    say(f"{page}: {found}")
    return found


if __name__ == "__main__":
    main()
