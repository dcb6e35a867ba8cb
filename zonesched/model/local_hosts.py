"""The local hosts that one request may use."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.build_plan import FunnelStep
from zonesched.model.host_table import HostTable


@dataclass(frozen=True)
class FoundHosts:
    """The hosts that were read, and the steps that left out all other hosts before they were read."""

    table: HostTable
    steps: tuple[FunnelStep, ...] = ()

    @property
    def are_all(self) -> bool:
        """Tell whether no host was left out before."""
        return not self.steps
