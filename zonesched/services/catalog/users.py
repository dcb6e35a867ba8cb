"""Users of this zone: people with a password; agents, parents and monitors with a generated secret."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from zonesched.errors import BadRequest, Conflict, Forbidden, NotFound, Unauthorized
from zonesched.model.caller import Caller, Explained, Role
from zonesched.model.views import NewUser, UserView
from zonesched.seal import passwords
from zonesched.seal.passwords import PERSON, ScryptCost, VerifiedCache
from zonesched.seams import Clock
from zonesched.services.state.password_guard import PasswordGuard
from zonesched.services.zone import Zone
from zonesched.store import dashboard_sessions, idle_holds, keypairs, quota_overrides, recovery, usage
from zonesched.store import users as rows
from zonesched.store.recovery import Kind
from zonesched.store.store import Store, Transaction
from zonesched.store.users import User

FIRST_ADMIN = "admin"
FIRST_PROJECT = "admin"
MAX_PASSWORD_LENGTH = 1024
MACHINES = frozenset({Role.COMPUTE, Role.PARENT, Role.MONITOR})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,254}")


def list_users(store: Store) -> list[UserView]:
    """List all users, by name."""
    return [_view(user) for user in store.read(rows.read_all)]


def list_seen(store: Store, caller: Caller) -> list[UserView]:
    """List the users that the caller may see, by name: an admin all of them, others themselves."""
    if caller.role is Role.ADMIN:
        return list_users(store)
    own = store.read(lambda tx: rows.read_one(tx, caller.user_id))
    return [] if own is None else [_view(own)]


def create(
    store: Store,
    clock: Clock,
    name: str,
    role: Role,
    project_id: str,
    password: str = "",
    explained: Explained = Explained.AS_THE_ZONE,
    *,
    cost: ScryptCost = PERSON,
) -> NewUser:
    """Add a user; without a password it gets a secret of 256 bits, which only this call returns.

    Raises BadRequest for a name that HTTP Basic cannot carry, for a chosen password of an agent or a parent,
    and as `set_explained`; Conflict for a name in use.
    """
    user, secret = _new_user(clock, name, role, project_id, password, cost)
    new = replace(user, explained=_for_parent(role, explained))

    def fn(tx: Transaction) -> None:
        if rows.read_by_name(tx, name):
            raise Conflict(f"There is a user {name}.", code="user_exists", field="user.name")
        if role is Role.PARENT:
            # The copy of a restored zone may be older than the parent, and lack what that has here.
            recovery.add(tx, Kind.PARENT, new.id)
        rows.insert(tx, new)

    store.write(fn)
    return NewUser(_view(new), secret)


def set_explained(store: Store, name: str, explained: Explained) -> UserView:
    """Set the detail of refusal reasons that a parent sees, from its next select on.

    Raises NotFound, and BadRequest for a user that is not a parent.
    """

    def fn(tx: Transaction) -> User:
        user = replace(_existing(tx, name), explained=explained)
        rows.set_explained(tx, user.id, _for_parent(user.role, explained))
        return user

    return _view(store.write(fn))


def set_secret(zone: Zone, name: str, password: str = "") -> NewUser:
    """Replace a user's password, or its secret by a generated one that only this call returns.

    The user keeps its id and all that it owns. Raises NotFound, and BadRequest as `create` does.
    """
    user = zone.store.read(lambda tx: _existing(tx, name))
    stored, secret = _proof(zone.clock, user.role, password, zone.passwords.cost)

    if not _replace(zone, user.id, lambda tx: rows.set_secret(tx, user.id, stored)):
        raise unknown()
    return NewUser(_view(user), secret)


def _replace(zone: Zone, user_id: str, write: Callable[[Transaction], bool]) -> bool:
    """Replace what proves who a user is, and end the user's sessions; return whether `write` wrote it."""

    def fn(tx: Transaction) -> bool:
        # The user's row first, as who deletes the user does.
        is_written = write(tx)
        if is_written:
            dashboard_sessions.delete_of_user(tx, user_id)
        return is_written

    is_replaced = zone.store.write(fn)
    zone.verified.drop(user_id)
    return is_replaced


def change_own_password(zone: Zone, caller: Caller, name: str, original: str, password: str) -> None:
    """Give the caller another password; the old one ends at once.

    Raises Forbidden for the name of another user, and where `original` is not the present password.
    """
    if caller.name != name:
        raise Forbidden(
            "Users change only their own password; an admin changes others with PUT.",
            code="not_own_user",
            field="name",
        )
    try:
        present = authenticate(zone, name, original)
    except Unauthorized:
        raise _wrong_password() from None
    stored, _ = _proof(zone.clock, present.role, password, zone.passwords.cost)
    id, proof = present.user_id, present.proof
    # An admin may have replaced the password since it was checked: that one stays.
    if not _replace(zone, id, lambda tx: rows.replace_secret(tx, id, proof, stored)):
        raise _wrong_password()


def _wrong_password() -> Forbidden:
    return Forbidden(
        "user.original_password is not the present password.",
        code="password_wrong",
        field="user.original_password",
    )


def delete(store: Store, verified: VerifiedCache, name: str, force: bool = False) -> None:
    """Remove a user. Raises NotFound, Conflict for the last admin.

    Only the parent itself can delete its instances from above. Raises Conflict while it has any; with `force`
    they stay, for this zone's admin to delete.
    """

    def fn(tx: Transaction) -> User:
        admins = rows.lock_admins(tx)
        user = _existing(tx, name)
        if [admin.id for admin in admins] == [user.id]:
            raise Conflict("The last admin cannot be removed.", code="last_admin", field="name")
        if not force and usage.has_wanted(tx, user.id):
            raise Conflict(
                "This parent has instances here: delete them in the parent first, or remove it by force.",
                code="user_has_instances",
                field="name",
            )
        rows.delete(tx, user.id)
        keypairs.delete_of_user(tx, user.id)
        dashboard_sessions.delete_of_user(tx, user.id)
        quota_overrides.forget(tx, user.id)
        idle_holds.forget(tx, user.id)
        return user

    verified.drop(store.write(fn).id)


def authenticate(zone: Zone, name: str, password: str, address: str = "") -> Caller:
    """Return the user of that name and password.

    `address`: the IP address of the caller, "" where it is not known. Raises Unauthorized, after
    the same time for every reason, and OverLimit and ZoneBusy for a password that cannot be checked now.
    """
    # A name that no user can have is not looked up: PostgreSQL takes no NUL character.
    is_name = _NAME.fullmatch(name) is not None
    user = zone.store.look_up(lambda tx: rows.read_by_name(tx, name)) if is_name else None
    # A text longer than any password is not hashed.
    presented = password if len(password) <= MAX_PASSWORD_LENGTH else ""
    if not _is_proof(zone.verified, zone.passwords, user, name, presented, address) or user is None:
        raise Unauthorized("The credentials are not valid.")
    return caller_of(user)


def caller_of(user: User) -> Caller:
    """Return a user as the caller of a request."""
    return Caller(user.id, user.name, user.role, user.project_id, user.explained, proof=user.secret)


def _is_proof(
    verified: VerifiedCache, guard: PasswordGuard, user: User | None, name: str, presented: str, address: str
) -> bool:
    """Tell whether this is the user's password or secret; an unknown user costs as much as a known one.

    A text with the form of a generated secret is only compared with secrets, so that machines never wait for
    a scrypt, however many passwords of people are being guessed.
    """
    has_secret = user is not None and user.secret.startswith("sha256$")
    if passwords.is_secret_form(presented):
        return passwords.verify(
            presented, user.secret if user is not None and has_secret else passwords.UNKNOWN_MACHINE
        )
    if user is None or has_secret:
        nobody = passwords.unknown_user(guard.cost)
        return guard.check(name, address, lambda: passwords.verify(presented, nobody))
    if verified.knows(user.id, presented, user.secret):
        return True
    if verified.has_seen(user.id, presented, user.secret):
        return guard.check_again(lambda: verified.verify(user.id, presented, user.secret))
    return guard.check(name, address, lambda: verified.verify(user.id, presented, user.secret))


def create_first_admin(store: Store, clock: Clock, keep: Callable[[NewUser], None]) -> NewUser | None:
    """Create the first admin of a zone without users; None for a zone that has some.

    `keep` stores its secret where the operator finds it, before the commit, so that a zone never has an admin
    whose secret is lost. If `keep` raises, the zone stays without users.
    """
    user, secret = _new_user(clock, FIRST_ADMIN, Role.ADMIN, FIRST_PROJECT, "", PERSON)
    made = NewUser(_view(user), secret)

    def fn(tx: Transaction) -> bool:
        if rows.read_all(tx):
            return False
        rows.insert(tx, user)
        keep(made)
        return True

    return made if store.write(fn) else None


def existing_parent(tx: Transaction, name: str) -> User:
    """Look up the parent of that name. Raises NotFound, and BadRequest for a user that is not a parent."""
    user = _existing(tx, name)
    if user.role is not Role.PARENT:
        raise BadRequest(f"A user of role {user.role.value} is not a parent.", code="no_parent", field="name")
    return user


def _for_parent(role: Role, explained: Explained) -> Explained:
    if explained is not Explained.AS_THE_ZONE and role is not Role.PARENT:
        raise BadRequest(
            f"user.explain_to_parent: a user of role {role.value} is not a parent.",
            code="no_parent",
            field="user.explain_to_parent",
        )
    return explained


def unknown() -> NotFound:
    """Return the fault of a user that is not there."""
    return NotFound("There is no such user.", code="user_not_found", field="name")


def _existing(tx: Transaction, name: str) -> User:
    user = rows.read_by_name(tx, name)
    if user is None:
        raise unknown()
    return user


def _new_user(
    clock: Clock, name: str, role: Role, project_id: str, password: str, cost: ScryptCost
) -> tuple[User, str]:
    if not _NAME.fullmatch(name):
        raise BadRequest(
            "user.name must be 1 to 255 letters, digits and ._@-, the first a letter or a digit.",
            field="user.name",
        )
    stored, secret = _proof(clock, role, password, cost)
    return User(clock.new_uuid(), name, role, project_id, stored, clock.now()), secret


def _proof(clock: Clock, role: Role, password: str, cost: ScryptCost) -> tuple[str, str]:
    """Hash a password, or generate a secret where there is none; return the stored form and the secret."""
    if len(password) > MAX_PASSWORD_LENGTH:
        raise BadRequest(
            f"user.password must have at most {MAX_PASSWORD_LENGTH} characters.",
            code="too_long",
            field="user.password",
        )
    if password and role in MACHINES:
        raise BadRequest(
            f"A user of role {role.value} gets a generated secret: leave the password out.",
            code="password_not_allowed",
            field="user.password",
        )
    if passwords.is_secret_form(password):
        raise BadRequest(
            "user.password has the form of a generated secret: choose another length than 43.",
            code="password_not_allowed",
            field="user.password",
        )
    if password:
        return passwords.hash_password(password, clock, cost), ""
    secret = passwords.new_secret(clock)
    return passwords.hash_secret(secret), secret


def _view(user: User) -> UserView:
    return UserView(user.id, user.name, user.role, user.project_id, user.explained)
