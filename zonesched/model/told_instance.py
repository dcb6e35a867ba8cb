"""An instance of which an agent tells that it has it."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.observed_state import Observed
from zonesched.model.request_spec import Flavor


@dataclass(frozen=True)
class ToldInstance:
    """`number`: of its place in the zone. `host`: the name of its host, "" where the agent does not know.

    `observed`: its last report; None where it is not built. `flavor`: None where the agent does not know it.
    """

    uuid: str
    number: int
    host: str
    is_built: bool
    observed: Observed | None = None
    flavor: Flavor | None = None
