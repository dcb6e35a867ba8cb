"""The scheduler of filters and weighers that reads the hosts at intervals, not for every request."""

from __future__ import annotations

from zonesched.scheduler.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """A FilterScheduler on hosts that are read at most once in `host_refresh_interval` seconds.

    Until the next reading it sees no new claim but those of boots that its own process began together, no
    new host and no failed agent, so several requests may choose the same best host; only while no host can
    take anything does each request read the hosts. The database still refuses a claim that does not fit, and
    then the next request reads the hosts first.

    When to use: the database is slow to reach, or parents ask for far more selects than boots.

    Reads: `host_refresh_interval` (60.0), and the options of FilterScheduler. With a `host_subset_size` above
    1, requests of one interval compete less often.

    Example: with `host_refresh_interval = 10`, a new host may go unused for ten seconds.
    """

    @property
    def hosts_max_age_s(self) -> float:
        return self.plugins.host_refresh_interval_s
