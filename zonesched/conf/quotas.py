"""The options of how much a project, a parent and the zone as a whole may have or ask for."""

from __future__ import annotations

from oslo_config import cfg

LIMITS = [
    cfg.IntOpt(
        "max_open_boots",
        default=10_000,
        min=1,
        help="Boots accepted and not ended, of all projects; above it, 503 zone_busy.",
    ),
    cfg.IntOpt(
        "project_instances",
        default=1_000_000,
        min=0,
        help="Instances of one project that are neither deleted nor in ERROR; above it, 429.",
    ),
    cfg.IntOpt(
        "project_open_boots", default=5000, min=1, help="Boots of one project accepted and not ended."
    ),
    cfg.IntOpt(
        "project_boots_per_minute",
        default=60_000,
        min=1,
        help="Boots of one project in a minute, counted by each process; as many may come at once.",
    ),
    cfg.IntOpt(
        "parent_instances",
        default=1_000_000,
        min=0,
        help="Instances of one parent here that are neither deleted nor in ERROR; above it, 429.",
    ),
    cfg.IntOpt(
        "parent_selects_per_minute",
        default=60_000,
        min=1,
        help="Selects of one parent in a minute, counted by each process; as many may come at once.",
    ),
    cfg.IntOpt(
        "parent_entries_per_minute",
        default=100_000_000,
        min=1,
        help="Entries that selects tell one parent in a minute, alternates included, counted likewise.",
    ),
]
