"""Flavors and images as this zone's catalogue keeps them; a request carries only what other zones need."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.request_spec import Flavor, Image


@dataclass(frozen=True)
class SeesAll:
    """A viewer who sees all flavors."""


@dataclass(frozen=True)
class SeesOfProject:
    """A viewer who sees public flavors, and those that this project may use."""

    project_id: str


Viewer = SeesAll | SeesOfProject

SEES_ALL = SeesAll()


@dataclass(frozen=True)
class CatalogFlavor:
    """A flavor; one that is not public is for the projects that were given access.

    `rxtx_factor` is shown as it was given: as in OpenStack Nova, no driver reads it.
    """

    flavor: Flavor
    is_public: bool = True
    description: str = ""
    rxtx_factor: float = 1.0


@dataclass(frozen=True)
class CatalogImage:
    """An image, the smallest flavor that it fits, and when it was added (UTC epoch seconds)."""

    image: Image
    min_disk_gb: int = 0
    min_ram_mb: int = 0
    created_at: float = 0.0
