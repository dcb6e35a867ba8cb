"""The boot of an instance, as a parent names it to a restored child, or a child to a restored parent."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import InstanceImage
from zonesched.model.placement import Attempt
from zonesched.model.request_spec import RequestSpec

MAX_BOOTS = 20
MAX_BUILDS = 1000
"""Limits of a call that names boots: the boots, and the builds of all of them together."""


@dataclass(frozen=True)
class Requested:
    """The request that a child was sent an instance with, for a parent that has forgotten it."""

    reservation_id: str
    spec: RequestSpec


@dataclass(frozen=True)
class ImageAndFlavor:
    """The image and the flavor of an instance, or those that it is to get."""

    image: InstanceImage
    flavor: InstanceFlavor


@dataclass(frozen=True)
class GivenBack:
    """A child's answer on an instance of its parent, whose rows were put back from a copy.

    `settled`: what the instance has, but for a resize that is not confirmed; `desired`: what it should have.
    `AS_BOOTED` is by `requested`, which may be another request than the parent's own: one of a later place.
    """

    requested: Requested
    settled: ImageAndFlavor
    desired: ImageAndFlavor


@dataclass(frozen=True)
class NamedBoot:
    """A boot's request, and those of its attempts that the parent has in the child."""

    reservation_id: str
    spec: RequestSpec
    builds: tuple[Attempt, ...]
