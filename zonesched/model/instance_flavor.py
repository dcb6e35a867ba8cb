"""The flavor of an instance: the one of its boot, until it is resized."""

from __future__ import annotations

from zonesched.model.instance_image import AsBooted
from zonesched.model.request_spec import Flavor

InstanceFlavor = Flavor | AsBooted


def flavor_of(flavor: InstanceFlavor, booted: Flavor) -> Flavor:
    """Return the flavor itself; `booted`: the one of the instance's boot."""
    return booted if isinstance(flavor, AsBooted) else flavor
