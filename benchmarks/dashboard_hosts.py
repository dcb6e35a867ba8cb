"""Measure the heat map of many hosts in a real browser: benchmarks/dashboard_hosts.py --hosts 100000."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import click

CHECKOUT = Path(__file__).resolve().parents[1]
# Not this folder: its select.py would stand in for Python's own module.
sys.path[0] = str(CHECKOUT)

from benchmarks.zone_trees.filled import register
from benchmarks.zone_trees.processes import ZoneSite, free_ports
from benchmarks.zone_trees.run_folder import run_folder
from benchmarks.zone_trees.tree import running_tree
from tests.builders.browser import a_browser

WAIT_MS = 120_000
SWEEP = """
() => new Promise((done) => {
  const canvas = document.querySelector("[data-heat] canvas"), box = canvas.getBoundingClientRect();
  const spent = [];
  const step = (number) => {
    if (number === 120) return done(spent);
    const x = box.left + (box.width * number) / 120;
    const y = box.top + 20 + ((box.height - 40) * (number % 40)) / 40;
    const began = performance.now();
    canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: x, clientY: y, bubbles: true }));
    spent.push(performance.now() - began);
    requestAnimationFrame(() => step(number + 1));
  };
  step(0);
})
"""
"""Moves the pointer over the map, one step a frame; returns the milliseconds of each."""


def measure(page: Any, base: str, count: int) -> dict[str, object]:
    """Open the map, move over it, and open one host."""
    began = time.monotonic()
    with page.expect_response("**/hosts/layout*") as layout, page.expect_response("**/hosts/heat*") as levels:
        page.goto(f"{base}/dashboard/hosts")
    page.wait_for_selector(f"[data-hosts='{count}']")
    drawn_s = time.monotonic() - began
    answers = {"layout_kb": layout, "levels_kb": levels}
    sizes = {name: round(len(answer.value.body()) / 1024) for name, answer in answers.items()}
    moves = page.evaluate(SWEEP)
    began = time.monotonic()
    page.click("[data-heat] canvas", position={"x": 30, "y": 60})
    page.wait_for_selector("text=Inventory")
    return {
        "drawn_ms": round(1000 * drawn_s),
        "move_p50_ms": round(statistics.median(moves), 1),
        "move_max_ms": round(max(moves), 1),
        "host_ms": round(1000 * (time.monotonic() - began)),
        **sizes,
    }


def say(text: str) -> None:
    """Show progress."""
    click.echo(f"dashboard: {text}", err=True)


@click.command()
@click.option("--hosts", "count", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--picture", type=click.Path(path_type=Path), help="Save the page as a PNG file.")
def main(count: int, picture: Path | None) -> None:
    """Draw and sweep the heat map; the last line is JSON."""
    with run_folder("dashboard", keep=False, say=say) as folder, a_browser() as browser:
        site = ZoneSite("root", folder / "root", free_ports(1)[0])
        with running_tree([[site]], lambda agent, *_: register(agent, count), say) as tree:
            link = tree.root_admin.call("POST", "/sign-in-links")["sign_in_link"]["path"]
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(WAIT_MS)
            page.goto(site.url + link)
            page.click("text=Sign in >> nth=-1")
            page.wait_for_url("**/dashboard/tree")
            found = measure(page, site.url, count)
            if picture is not None:
                page.goto(f"{site.url}/dashboard/hosts")
                page.wait_for_selector(f"[data-hosts='{count}']")
                page.screenshot(path=picture)
    click.echo(json.dumps({"benchmark": "dashboard_hosts", "hosts": count, **found}))


if __name__ == "__main__":
    main()
