"""Registered children with decrypted credentials, as the zone manager needs them for its calls."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from zonesched.errors import Unavailable
from zonesched.seal.secrets import SecretBox
from zonesched.store import children as rows
from zonesched.store import locks
from zonesched.store.children import ChildRow
from zonesched.store.store import Store, Transaction
from zonesched.zones.child import Child

log = logging.getLogger(__name__)


class StoredChildren:
    """`zonesched.zones.zone_manager.ChildRows` over the zone's database."""

    def __init__(self, store: Store, secret_box: SecretBox) -> None:
        self._store = store
        self._secret_box = secret_box

    def list_children(self) -> Sequence[Child]:
        """Read all children, in the order in which they were added.

        A child whose credential cannot be decrypted gets an empty one: it refuses this zone's calls and
        counts as offline.
        """
        return [self.child(row) for row in self._store.read(rows.read_all)]

    def note_zones(self, zone_uuids: Mapping[str, str]) -> Collection[str]:
        """Note zone uuids by child id; return the ids whose zone is registered as another child."""

        def fn(tx: Transaction) -> list[str]:
            locks.which_zones(tx)
            refused: list[str] = []
            for child_id, zone_uuid in zone_uuids.items():
                if rows.name_of_zone(tx, zone_uuid, but=child_id):
                    refused.append(child_id)
                else:
                    rows.set_zone_uuid(tx, child_id, zone_uuid)
            return refused

        return self._store.write(fn)

    def encrypt(self, child_id: str, password: str) -> str:
        """Encrypt a child's credential for its row. Raises Unavailable for a zone without a key."""
        return self._secret_box.encrypt("children", child_id, "password", password)

    def child(self, row: ChildRow) -> Child:
        """Make the child of a row."""
        try:
            password = self._secret_box.decrypt("children", row.id, "password", row.encrypted_password)
        except Unavailable as error:
            log.warning("the credential of child zone %s cannot be used: %s", row.id, error.message)
            password = ""
        return Child(
            id=row.id,
            name=row.name,
            api_url=row.api_url,
            username=row.username,
            password=password,
            weight_offset=row.weight_offset,
            weight_scale=row.weight_scale,
            zone_uuid=row.zone_uuid,
            is_enabled=row.is_enabled,
        )
