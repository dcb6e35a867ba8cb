"""Resizes: what is looked up before the transaction that takes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zonesched.errors import BadRequest
from zonesched.model.caller import Caller
from zonesched.model.desired_state import NEW
from zonesched.model.instance_action import ResizeServer
from zonesched.model.present_request import as_now
from zonesched.model.request_spec import Flavor, RequestSpec
from zonesched.services.catalog import flavors
from zonesched.services.life.instance_requests import requests_of
from zonesched.services.zone import Zone
from zonesched.store import instances
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.store import Transaction

FIELD = "resize.flavorRef"


@dataclass(frozen=True)
class Resize:
    """A resize whose flavor was looked up. `specs`: the requests of the instances, by uuid."""

    asked: ResizeServer
    flavor: Flavor
    specs: Mapping[str, RequestSpec]

    def check(self, uuid: str, stored: StoredState | None) -> None:
        """Raise BadRequest where the instance has this flavor."""
        state = stored.state if stored is not None else NEW
        if as_now(self.specs[uuid], state).flavor.id == self.flavor.id:
            raise BadRequest(f"{FIELD}: the server has this flavor.", code="flavor_unchanged", field=FIELD)


def prepare(zone: Zone, caller: Caller, uuids: Sequence[str], asked: ResizeServer) -> Resize:
    """Look up the flavor. Raises BadRequest."""
    flavor = flavors.resolve(zone.store, asked.flavor_ref, flavors.viewer_of(caller), FIELD)
    specs = zone.store.read(partial(requests_of, uuids=uuids))
    for spec in specs.values():
        zone.schedulers.default.check(replace(spec, flavor=flavor))
    return Resize(asked, flavor, specs)


def change_details(tx: Transaction, change: int, resized: Instance, asked: ResizeServer, now: float) -> None:
    """Change what the owner of an instance keeps with it, as the resize says."""
    if asked.disk_config:
        kept = {**resized.passthrough, "disk_config": asked.disk_config}
        instances.set_details(tx, change, resized.uuid, resized.name, kept, now)
