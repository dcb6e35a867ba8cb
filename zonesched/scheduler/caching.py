"""The scheduler of filters and weighers that does not read the hosts at every request."""

from __future__ import annotations

from zonesched.scheduler.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """FilterScheduler on hosts that are read at most once in `host_refresh_interval` seconds.

    For a zone whose database is slow to reach, or that many parents ask. Until the next reading it sees no
    claim, no new host and no silent agent, so that several requests may want the same best host. The database
    still refuses each claim that does not fit; a claim that lost makes the next request read the hosts first.
    """

    @property
    def hosts_max_age_s(self) -> float:
        return self.plugins.host_refresh_interval_s
