"""The sample files of the package: configurations, an inventory, monitoring, units for systemd."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import zonesched

KEYS = re.compile(r"(?m)^#((?:build_plan|secret)_encryption_key =)[ ]*$")
"""Line of a key option that a sample leaves empty."""


@dataclass(frozen=True)
class Sample:
    """A file in etc/ and its short name in commands."""

    name: str
    file: str
    help: str


SAMPLES = (
    Sample("zone", "zonesched/zonesched.conf", "every option of a zone with its default"),
    Sample("inventory", "zonesched/hosts.csv", "hosts of an agent"),
    Sample("root", "federation/root.conf", "the zone that users call, on port 8790"),
    Sample("region", "federation/region.conf", "a child of root, on port 8791"),
    Sample("leaf", "federation/leaf.conf", "a child of region with hosts, on port 8792"),
    Sample("tree", "federation/tree.toml", "these three, for zonesched federation apply"),
    Sample("several-machines", "several-machines/zone.conf", "one zone on several machines"),
    Sample("haproxy", "several-machines/haproxy.cfg", "the load balancer of such a zone"),
    Sample("prometheus", "monitoring/prometheus.yml", "the configuration of Prometheus for zones"),
    Sample("alerts", "monitoring/alerts.yml", "alert rules of Prometheus for zones"),
    Sample("dashboard", "monitoring/dashboard.json", "a dashboard of Grafana for zones"),
    Sample("zone-unit", "systemd/zonesched-zone@.service", "systemd's unit of zones"),
    Sample("compute-unit", "systemd/zonesched-compute@.service", "systemd's unit of agents"),
)


def folder() -> Path:
    """Return the path of etc/: inside the installed package, or beside it in a checkout."""
    package = Path(zonesched.__file__).parent
    return package / "etc" if (package / "etc").is_dir() else package.parent / "etc"


def text_of(sample: Sample, new_key: Callable[[], str]) -> str:
    """Return the content of a sample, with a new key for each key option that it leaves empty."""
    text = (folder() / sample.file).read_text(encoding="utf-8")
    return KEYS.sub(lambda found: f"{found[1]} {new_key()}", text)
