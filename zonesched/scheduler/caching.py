"""The scheduler of filters and weighers that does not read the hosts at every request."""

from __future__ import annotations

from zonesched.scheduler.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """A FilterScheduler on hosts that are read at most once in `host_refresh_interval` seconds.

    Until the next reading it sees no claim, no new host and no silent agent, so that several requests may
    want the same best host; only while no host can take anything does each request read them. The database
    still refuses each claim that does not fit; a claim that lost makes the next request read the hosts first.

    When to use: the database is slow to reach, or parents ask for far more selects than boots.

    Reads: `host_refresh_interval` (60.0), and what FilterScheduler reads. A `host_subset_size` above 1 lets
    requests of one interval lose less often.

    Example: with `host_refresh_interval = 10`, a new host may go unseen for ten seconds.
    """

    @property
    def hosts_max_age_s(self) -> float:
        return self.plugins.host_refresh_interval_s
