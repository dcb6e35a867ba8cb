"""Secrets in a zone's rows: its own secret, its children's credentials, and the user_data of instances.

With a `secret_encryption_key` they are stored encrypted under its first key. The start of a zone encrypts
those that are in the clear or under a later key, the zone's own secret last: as long as that one is not
encrypted under the first key, each start goes through all of them. It also does while there is a later key:
another process, which has that one first, may have stored something since.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from zonesched.errors import ConfigError, Unavailable
from zonesched.seal.secrets import SecretBox
from zonesched.store import children, identity, locks, passthroughs
from zonesched.store.identity import Identity
from zonesched.store.passthroughs import StoredPassthrough
from zonesched.store.store import Store, Transaction

log = logging.getLogger(__name__)

CLEAR = "user_data"
ENCRYPTED = "encrypted_user_data"
"""Members of an instance's passthrough; it has one of them at most."""

CHUNK = 500
_OWN = ("identity", "1", "host_id_secret")
_IN_THE_CLEAR = re.compile(r"[0-9a-fA-F]{64}")
_REASONS = {
    "zone_has_no_secret_key": "secrets in this zone's database are encrypted, and no key is set. Set the key"
    " under which they were encrypted.",
    "secret_of_other_key": "secrets in this zone's database are encrypted under another key. Set that key, or"
    " add it behind the new one.",
    "secret_damaged": "the zone's own secret in its database is damaged, or from another zone's database.",
}


def new_identity(box: SecretBox, zone_uuid: str, secret: str) -> Identity:
    """Return the first row of a new zone's identity; `box` is the new zone's."""
    return Identity(zone_uuid, box.encrypt(*_OWN, secret) if box.can_encrypt else secret)


def own_secret(box: SecretBox, me: Identity) -> str:
    """Return the zone's own secret, 64 hex digits.

    Raise ConfigError if the keys of the configuration do not decrypt it.
    """
    if _IN_THE_CLEAR.fullmatch(me.stored_secret):
        return me.stored_secret
    try:
        return box.decrypt(*_OWN, me.stored_secret)
    except Unavailable as error:
        raise ConfigError(
            f"Option secret_encryption_key: {_REASONS[error.code]}", field="secret_encryption_key"
        ) from None


def encrypt_all(store: Store, box: SecretBox, me: Identity) -> None:
    """Encrypt under the first key whatever is not yet; do nothing for a zone without a key."""
    is_first_time = not box.is_current(me.stored_secret)
    if not box.can_encrypt or not (is_first_time or box.has_later_keys):
        return
    store.write(lambda tx: _encrypt_credentials(tx, box))
    count = _encrypt_user_data(store, box)
    if not is_first_time:
        return
    encrypted = box.encrypt(*_OWN, own_secret(box, me))
    store.write(lambda tx: identity.replace_secret(tx, me, encrypted))
    log.info("encrypted the zone's secrets under the first secret_encryption_key, user_data=%d", count)


def protected(box: SecretBox, reservation_id: str, passthrough: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an instance's passthrough as it is stored: with user_data encrypted if the zone has a key."""
    if not box.can_encrypt or CLEAR not in passthrough:
        return passthrough
    rest = {name: value for name, value in passthrough.items() if name != CLEAR}
    return {**rest, ENCRYPTED: box.encrypt("instances", reservation_id, CLEAR, passthrough[CLEAR])}


def user_data(box: SecretBox, reservation_id: str, passthrough: Mapping[str, Any]) -> str:
    """Return the user_data (base64) of a stored passthrough, "" for none.

    Raise Unavailable as `SecretBox.decrypt` does.
    """
    if ENCRYPTED in passthrough:
        return box.decrypt("instances", reservation_id, CLEAR, passthrough[ENCRYPTED])
    return str(passthrough.get(CLEAR, ""))


def _encrypt_credentials(tx: Transaction, box: SecretBox) -> None:
    for row in children.read_all(tx):
        if box.is_current(row.encrypted_password):
            continue
        place = ("children", row.id, "password")
        try:
            password = box.decrypt(*place, row.encrypted_password)
        except Unavailable as error:
            log.warning("the credential of child zone %s stays as it is: %s", row.id, error.message)
            continue
        children.set_password(tx, row, box.encrypt(*place, password))


def _encrypt_user_data(store: Store, box: SecretBox) -> int:
    """Encrypt the user_data of all instances, some in each transaction; return the number of instances."""
    after, count = "", 0
    while uuids := store.write(partial(_encrypt_some_user_data, box=box, after=after)):
        after, count = uuids[-1], count + len(uuids)
    return count


def _encrypt_some_user_data(tx: Transaction, box: SecretBox, after: str) -> list[str]:
    uuids = passthroughs.uuids(tx, CLEAR, after, CHUNK, but=f'"{ENCRYPTED}":"{box.current_start}')
    # Owners write the same column.
    locks.instances(tx, uuids)
    rows = passthroughs.read(tx, uuids)
    changed = {row.uuid: new for row in rows if (new := _encrypted_again(box, row)) is not row.passthrough}
    passthroughs.set_all(tx, changed)
    return uuids


def _encrypted_again(box: SecretBox, row: StoredPassthrough) -> Mapping[str, Any]:
    """Return the passthrough of a row with its user_data, if any, encrypted under the first key."""
    passthrough = row.passthrough
    if CLEAR in passthrough:
        return protected(box, row.reservation_id, passthrough)
    if ENCRYPTED not in passthrough or box.is_current(passthrough[ENCRYPTED]):
        return passthrough
    try:
        clear = user_data(box, row.reservation_id, passthrough)
    except Unavailable as error:
        log.warning("the user_data of instance %s stays as it is: %s", row.uuid, error.message)
        return passthrough
    rest = {name: value for name, value in passthrough.items() if name != ENCRYPTED}
    return protected(box, row.reservation_id, {**rest, CLEAR: clear})
