"""The boot of an instance, as a parent names it to a restored child, or a child to a restored parent."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.placement import Attempt
from zonesched.model.request_spec import RequestSpec


@dataclass(frozen=True)
class Requested:
    """The request that a child was sent an instance with, for a parent that has forgotten it."""

    reservation_id: str
    spec: RequestSpec


@dataclass(frozen=True)
class NamedBoot:
    """A boot's request, and those of its attempts that the parent has in the child."""

    reservation_id: str
    spec: RequestSpec
    builds: tuple[Attempt, ...]
