"""Key pairs of users. A zone makes or imports them, and keeps only the public half."""

from __future__ import annotations

from zonesched.errors import BadRequest, Conflict, Forbidden, NotFound
from zonesched.model.keypair import Keypair
from zonesched.seal import ssh_keys
from zonesched.seal.ssh_keys import SshKeyPair
from zonesched.seams import Clock
from zonesched.store import keypairs as rows
from zonesched.store import locks
from zonesched.store.store import Store, Transaction

MAX_PER_USER = 100


def list_keypairs(store: Store, user_id: str, marker: str, limit: int) -> list[Keypair]:
    """List at most `limit` key pairs of a user by name, from the one behind `marker` on.

    Raises BadRequest for a marker that names none of the user's.
    """

    def fn(tx: Transaction) -> list[Keypair]:
        if marker and rows.read_one(tx, user_id, marker) is None:
            raise BadRequest("marker names no key pair of the user.", code="marker_unknown", field="marker")
        return rows.page(tx, user_id, marker, limit)

    return store.read(fn)


def show(store: Store, user_id: str, name: str) -> Keypair:
    """Show one key pair of a user. Raises NotFound."""
    found = store.read(lambda tx: rows.read_one(tx, user_id, name))
    if found is None:
        raise _unknown()
    return found


def add(store: Store, clock: Clock, user_id: str, name: str, public_key: str) -> Keypair:
    """Add the public half of a key pair.

    Raises BadRequest for text that is no public key, Conflict for a name that the user has, and Forbidden for
    one key pair too many.
    """
    new = Keypair(user_id, name, public_key, ssh_keys.fingerprint(public_key), clock.now())

    def fn(tx: Transaction) -> None:
        locks.owned(tx, "keypairs", user_id)
        if rows.read_one(tx, user_id, name) is not None:
            message = f"The user has a key pair {name!r}."
            raise Conflict(message, code="keypair_exists", field="keypair.name")
        if rows.count(tx, user_id) >= MAX_PER_USER:
            raise Forbidden(f"A user has at most {MAX_PER_USER} key pairs.", code="keypair_limit")
        rows.insert(tx, new)

    store.write(fn)
    return new


def make(store: Store, clock: Clock, user_id: str, name: str) -> tuple[Keypair, SshKeyPair]:
    """Make a key pair; only this call returns its private half. Raises as `add`."""
    made = ssh_keys.make(clock.random_bytes(ssh_keys.SEED_BYTES))
    return add(store, clock, user_id, name, made.public_key), made


def remove(store: Store, user_id: str, name: str) -> None:
    """Remove a key pair. Raises NotFound."""

    def fn(tx: Transaction) -> None:
        if not rows.delete(tx, user_id, name):
            raise _unknown()

    store.write(fn)


def _unknown() -> NotFound:
    return NotFound("The user has no such key pair.", code="keypair_not_found", field="name")
