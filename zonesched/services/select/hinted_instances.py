"""Hints of a parent that name its instances, which may have other uuids here."""

from __future__ import annotations

from dataclasses import replace

from zonesched.model.caller import Caller
from zonesched.model.request_spec import RequestSpec
from zonesched.store import aliases
from zonesched.store.store import Store

_NAMING = ("same_host", "different_host")


def with_uuids_here(store: Store, caller: Caller, spec: RequestSpec) -> RequestSpec:
    """Return the request with the uuids that the hinted instances have in this zone."""
    named = [*spec.same_host, *spec.different_host]
    if not named:
        return spec
    here = store.read(lambda tx: aliases.instance_uuids(tx, caller.user_id, named))
    hints = {
        name: tuple(here.get(uuid, uuid) for uuid in value) if name in _NAMING else value
        for name, value in spec.hints.items()
    }
    return replace(spec, hints=hints) if here else spec
