"""Options of the quotas and rate limits of projects, parents and the zone as a whole."""

from __future__ import annotations

from oslo_config import cfg

from zonesched.conf.bounds import MOST

LIMITS = [
    cfg.IntOpt(
        "max_open_boots",
        default=10_000,
        min=1,
        max=MOST,
        help="Maximum number of unfinished boots of all projects; above it, 503 zone_busy.",
    ),
    cfg.IntOpt(
        "project_instances",
        default=1_000_000,
        min=0,
        max=MOST,
        help="Maximum number of a project's instances, without deleted and failed ones; above it, 429.",
    ),
    cfg.IntOpt(
        "project_open_boots",
        default=5000,
        min=1,
        max=MOST,
        help="Maximum number of unfinished boots of one project; above it, 429.",
    ),
    cfg.IntOpt(
        "project_boots_per_minute",
        default=60_000,
        min=1,
        max=MOST,
        help="Boots per minute of one project, also the burst size; each process counts for itself.",
    ),
    cfg.IntOpt(
        "project_dry_runs_per_minute",
        default=600,
        min=1,
        max=MOST,
        help="Dry runs per minute of one project, also the burst size; each is a select in the whole tree."
        " Each process counts for itself.",
    ),
    cfg.IntOpt(
        "parent_instances",
        default=1_000_000,
        min=0,
        max=MOST,
        help="Maximum number of a parent's instances, without deleted and failed ones; above it, 429.",
    ),
    cfg.IntOpt(
        "parent_holds",
        default=100_000,
        min=1,
        max=MOST,
        help="Maximum number of a parent's instances that are held and not confirmed; above it, 429.",
    ),
    cfg.IntOpt(
        "parent_holds_per_minute",
        default=10_000,
        min=1,
        max=MOST,
        help="Holds per minute of one parent, also the burst size; a confirmed hold does not count. Each"
        " process counts for itself.",
    ),
    cfg.IntOpt(
        "parent_idle_percent",
        default=10,
        min=1,
        max=100,
        help="Percentage of the zone's capacity that one parent may take, on average, with holds that it does"
        " not confirm; a minute of the whole zone is free. Above it, 429. A hold in a child zone counts as"
        " 1/parent_holds of the capacity.",
    ),
    cfg.IntOpt(
        "parent_tombstones",
        default=10_000,
        min=1,
        max=MOST,
        help="Maximum number of a parent's attempts that ended before they had a placement, such as those"
        " cancelled before they arrived; above it, 429. Each is kept for build_plan_ttl and retry_window.",
    ),
    cfg.IntOpt(
        "parent_selects_per_minute",
        default=60_000,
        min=1,
        max=MOST,
        help="Selects per minute of one parent, also the burst size; each process counts for itself.",
    ),
    cfg.IntOpt(
        "parent_selects_per_hour",
        default=360_000,
        min=1,
        max=MOST,
        help="Selects per hour of one parent, also the burst size; it bounds what a parent learns by asking."
        " Each process counts for itself.",
    ),
    cfg.IntOpt(
        "parent_entries_per_minute",
        default=100_000_000,
        min=1,
        max=MOST,
        help="Entries per minute in the answers to one parent's selects, alternates and those that a page"
        " skips included, also the burst size; each process counts for itself.",
    ),
]
