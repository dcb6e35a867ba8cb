"""Rebuilds: what is looked up before the transaction that takes one, and what is changed within it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zonesched.model.catalog import CatalogImage
from zonesched.model.desired_state import NEW
from zonesched.model.instance_action import RebuildServer
from zonesched.model.present_request import as_now
from zonesched.model.request_spec import RequestSpec
from zonesched.model.server_hostname import with_hostname_kept
from zonesched.services.catalog import images
from zonesched.services.life import image_fit
from zonesched.services.life.image_fit import ImageFit
from zonesched.services.life.instance_requests import requests_of
from zonesched.services.state import stored_secrets
from zonesched.services.zone import Zone
from zonesched.store import instances
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.store import Transaction

FIELD = "rebuild.imageRef"


@dataclass(frozen=True)
class Rebuild:
    """A rebuild whose image was looked up. `fit`: which local hosts take it. `specs`: by instance."""

    asked: RebuildServer
    image: CatalogImage
    fit: ImageFit
    specs: Mapping[str, RequestSpec]

    def check(self, uuid: str, stored: StoredState | None) -> None:
        """Raise BadRequest where an instance's flavor is too small for the image."""
        state = stored.state if stored is not None else NEW
        images.check_fits(self.image, as_now(self.specs[uuid], state).flavor, FIELD)


def prepare(zone: Zone, uuids: Sequence[str], asked: RebuildServer) -> Rebuild:
    """Look up the image, and ask the hosts of these instances. Raises BadRequest."""
    image = images.resolve(zone.store, asked.image_ref, FIELD)
    specs = zone.store.read(lambda tx: requests_of(tx, uuids))
    for spec in specs.values():
        zone.schedulers.default.check(replace(spec, image=image.image))
    return Rebuild(asked, image, image_fit.ask(zone, dict.fromkeys(specs, image.image)), specs)


def change_details(zone: Zone, tx: Transaction, change: int, rebuilt: Instance, asked: RebuildServer) -> None:
    """Change what the owner of an instance keeps with it, as the rebuild says."""
    if not asked.name and not asked.passthrough:
        return
    given, removed = asked.passthrough, {n for n, value in asked.passthrough.items() if value is None}
    if stored_secrets.CLEAR in given:
        removed.add(stored_secrets.ENCRYPTED)
    new_name = asked.name or rebuilt.name
    present = with_hostname_kept(rebuilt.name, new_name, rebuilt.passthrough)
    kept = {name: value for name, value in present.items() if name not in removed}
    added = {name: value for name, value in given.items() if name not in removed}
    added = dict(stored_secrets.protected(zone.secret_box, rebuilt.reservation_id, added))
    instances.set_details(tx, change, rebuilt.uuid, new_name, {**kept, **added}, zone.clock.now())
