"""The own hosts that one request is asked of."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.build_plan import FunnelStep
from zonesched.model.host_table import HostTable


@dataclass(frozen=True)
class FoundHosts:
    """Hosts, and by which steps all others were left out before they were read."""

    table: HostTable
    steps: tuple[FunnelStep, ...] = ()
