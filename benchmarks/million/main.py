"""The command: its arguments, its tree, its line of JSON."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import FrameType

import click

from benchmarks.boot_times.stamps import Decisions, Undecided
from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.cpu import cpu_seconds
from benchmarks.zone_trees.filled import FLAVOR, register
from benchmarks.zone_trees.processes import StartFailed
from benchmarks.zone_trees.run_folder import run_folder
from benchmarks.zone_trees.tree import PROJECT, Tree, running_tree, sites

from . import afterwards
from .claiming import Claiming, rates

PARTS = 10
LOOK_S = 0.02
"""Seconds between two looks for boots that are decided: each of them takes a hundred times as long."""

NOTHING_BUILDS = {"instance_build_timeout": "1000000"}
"""Option of all zones: without agents every build would time out, and get another place."""


@click.command()
@click.option("--regions", type=click.IntRange(1, 100), default=10, show_default=True, help="Child zones.")
@click.option("--hosts", type=click.IntRange(min=1), default=6100, show_default=True, help="Of all regions.")
@click.option("--instances", type=click.IntRange(min=1), default=2_000_000, show_default=True)
@click.option(
    "--at-once", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Instances of a boot."
)
@click.option(
    "--clients", type=click.IntRange(1, 64), default=4, show_default=True, help="Boots at one time."
)
@click.option("--keep", is_flag=True, help="Leave the folder with databases and logs.")
def main(regions: int, hosts: int, instances: int, at_once: int, clients: int, keep: bool) -> None:
    """Claim instances in all regions through their root, as HashiCorp's C2M challenge started containers.

    Places are chosen, claimed and confirmed, each commit durable, each call authenticated; nothing is started
    on a host. Then it lists, shows, audits the whole tree and starts the root again. The last line is JSON.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with run_folder("c2m", keep, _say) as folder:
            line = _run(folder, regions, hosts, instances, at_once, clients)
    except (StartFailed, ZoneFault, Undecided) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        _say("stopped, and all zones with it")
        raise SystemExit(128 + signal.SIGINT) from None
    asked = {"regions": regions, "hosts": hosts, "asked": instances, "at_once": at_once, "clients": clients}
    click.echo(json.dumps({"benchmark": "c2m", **asked, "cpus": os.cpu_count(), **line}))


def _run(
    folder: Path, regions: int, hosts: int, instances: int, at_once: int, clients: int
) -> dict[str, object]:
    of_region = -(-hosts // regions)
    levels = sites(folder, [1, regions], lambda _: NOTHING_BUILDS)
    with running_tree(levels, lambda agent, *_: register(agent, of_region), _say) as tree:
        _raise_limits(tree, instances)
        flavor = tree.root_admin.call("POST", "/flavors", FLAVOR)["flavor"]["id"]
        decisions = Decisions(tree.zones[0].site.database_url, LOOK_S)
        pids = [zone.pid for zone in tree.zones]
        try:
            claiming = Claiming(decisions, instances, at_once, _say)
            cpu_before = cpu_seconds(pids)
            users = [ZoneClient.like(tree.tenant) for _ in range(clients)]
            seconds = claiming.run(users, flavor, tree.check)
            cpu_s = cpu_seconds(pids) - cpu_before
        finally:
            decisions.close()
        times_ms = sorted(boot.stamps.ms for boot in claiming.boots)
        claimed = sum(boot.stamps.claimed for boot in claiming.boots)
        _say(f"{claimed} instances in {seconds:.0f} s; looking at what is there")
        looked = afterwards.look(tree.tenant, _say)
        differences, audit_s = afterwards.audit(tree.root_admin)
        _say(f"audit: {differences} inconsistencies in {audit_s} s")
        peak_mb, database_mb = afterwards.peak_mb(pids), afterwards.database_mb(folder)
        return {
            "instances": claimed,
            "seconds": round(seconds, 1),
            "instances_per_s": round(claimed / seconds, 1),
            "by_part": rates(claiming.boots, PARTS),
            "p50_ms": round(times_ms[len(times_ms) // 2], 1),
            "p99_ms": round(times_ms[int(len(times_ms) * 0.99)], 1),
            "unplaced": instances - claimed,
            "zone_cpu_ms_per_boot": round(1000 * cpu_s / len(times_ms), 1),
            "audit_differences": differences,
            "audit_s": audit_s,
            "database_mb": database_mb,
            "peak_rss_mb": peak_mb,
            "restart_s": afterwards.restarted(tree, 0),
            **looked,
        }


def _raise_limits(tree: Tree, instances: int) -> None:
    """Admit twice as many instances, of the user's project in the root and of the root in each region."""
    root, *regions = tree.zones
    of_project = {"limits": {"project_instances": 2 * instances}}
    tree.root_admin.call("PUT", f"/limits/projects/{PROJECT}", of_project)
    for region in regions:
        path = f"/limits/parents/{root.site.name}"
        tree.admins[region.site.name].call("PUT", path, {"limits": {"parent_instances": 2 * instances}})


def _say(line: str) -> None:
    click.echo(f"c2m: {line}", err=True)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
