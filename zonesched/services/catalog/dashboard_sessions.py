"""Sessions of the dashboard: begun by a password or by a one-time link, ended by time or by the user.

The zone keeps a hash of each token. A changed password ends all sessions of its user.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from zonesched.conf import Conf
from zonesched.errors import Forbidden, NotFound, Unauthorized
from zonesched.model.caller import Caller, Role
from zonesched.seal.envelope import CLOCK_STEP_MS
from zonesched.services.catalog import users
from zonesched.services.zone import Zone
from zonesched.store import dashboard_sessions as rows
from zonesched.store import identity
from zonesched.store import users as user_rows
from zonesched.store.dashboard_sessions import SessionRow
from zonesched.store.store import Store, Transaction

TOKEN_BYTES = 32
LINK_S = 3600.0
"""Seconds until a sign-in link expires."""

MAX_PER_USER = 100
"""Maximum number of sessions and links of one user; a further one ends the oldest."""

_MOST_AHEAD_S = CLOCK_STEP_MS / 1000
"""Seconds by which the clock of another process of the zone may be ahead."""

PEOPLE = frozenset({Role.ADMIN, Role.MEMBER, Role.READER})
NOAUTH = Caller(user_id="noauth", name="noauth", role=Role.ADMIN, project_id="noauth")
"""The one user of a zone without users (`auth_strategy = noauth`)."""


@dataclass(frozen=True)
class NewToken:
    """A token that only this value has, and the seconds until it expires."""

    token: str = field(repr=False)
    lasts_s: float


def sign_in(zone: Zone, caller: Caller) -> NewToken:
    """Begin a session of an authenticated user.

    Raises NotFound, Forbidden for a machine, and Unauthorized where the user has another password by now.
    """
    check_may_look(zone.conf, caller)
    return _add(zone, caller, is_link=False, lasts_s=zone.conf.dashboard_session)


def new_link(zone: Zone, caller: Caller) -> NewToken:
    """Make a link that signs its user in once. Raises as `sign_in`."""
    check_may_look(zone.conf, caller)
    return _add(zone, caller, is_link=True, lasts_s=LINK_S)


def follow_link(zone: Zone, token: str) -> tuple[Caller, NewToken]:
    """Begin the session of a link, which ends it. Raises Unauthorized."""
    hashed, now = _hash(token), zone.clock.now()

    def fn(tx: Transaction) -> Caller | None:
        row = rows.read_one(tx, hashed)
        if row is None or not row.is_link or not _is_valid(row, now) or not rows.delete(tx, hashed):
            return None
        return _caller(zone.conf, tx, row.user_id)

    caller = zone.store.write(fn)
    if caller is None:
        raise Unauthorized("The link was used already, or has expired.", code="link_invalid")
    return caller, sign_in(zone, caller)


def caller_of(zone: Zone, token: str) -> Caller:
    """Return the user whose session this is. Raises Unauthorized."""
    hashed, now = _hash(token), zone.clock.now()

    def fn(tx: Transaction) -> Caller | None:
        row = rows.read_one(tx, hashed)
        is_session = row is not None and not row.is_link and _is_valid(row, now)
        return _caller(zone.conf, tx, row.user_id) if row is not None and is_session else None

    caller = zone.store.read(fn) if token else None
    if caller is None:
        raise Unauthorized("Nobody is signed in.", code="session_invalid")
    check_may_look(zone.conf, caller)
    return caller


def sign_out(store: Store, token: str) -> None:
    """End a session."""
    store.write(lambda tx: rows.delete(tx, _hash(token)))


def form_token(token: str) -> str:
    """Return the token of the forms of a session: who sends it has read a page of that session."""
    return hmac.new(token.encode(), b"dashboard form", hashlib.sha256).hexdigest()


def news(zone: Zone, caller: Caller, shown: object) -> str:
    """Return a text that changes with `shown`, and with hosts, instances and boots that the caller may see.

    Keyed, since the numbers of changes tell how much others do: nobody may find them by trying.
    """
    watermark = zone.store.read(identity.low_watermark)
    changes = zone.store.read(lambda tx: identity.stored_changes(tx, watermark))
    if caller.role is not Role.ADMIN:
        changes = zone.project_changes.read(caller.project_id, changes, watermark)
    seen = b"dashboard news " + repr((changes, shown)).encode()
    return hmac.new(zone.host_id_secret.encode(), seen, hashlib.sha256).hexdigest()[:16]


def check_may_look(conf: Conf, caller: Caller) -> None:
    """Raise NotFound where there is no dashboard, Forbidden for a user who is a machine."""
    if not conf.allow_dashboard:
        raise NotFound("This zone has no dashboard.", code="dashboard_off")
    if caller.role not in PEOPLE:
        raise Forbidden(f"The role {caller.role.value} has no dashboard.", code="role_forbidden")


def _add(zone: Zone, caller: Caller, *, is_link: bool, lasts_s: float) -> NewToken:
    token, now = zone.clock.random_bytes(TOKEN_BYTES).hex(), zone.clock.now()
    row = SessionRow(_hash(token), caller.user_id, is_link, now, now + lasts_s)

    def fn(tx: Transaction) -> None:
        # A session of a password that was replaced meanwhile would outlast it.
        if user_rows.lock_secret(tx, caller.user_id) != caller.proof:
            raise Unauthorized("The credentials are not valid any more.")
        rows.delete_invalid(tx, now, now + _MOST_AHEAD_S)
        for old in rows.of_user(tx, caller.user_id)[MAX_PER_USER - 1 :]:
            rows.delete(tx, old.token_hash)
        rows.insert(tx, row)

    zone.store.write(fn)
    return NewToken(token, lasts_s)


def _is_valid(row: SessionRow, now: float) -> bool:
    """Tell whether a token is valid now.

    One from the future was made before the clock was set back; its expiry means nothing now.
    """
    return row.created_at - _MOST_AHEAD_S <= now < row.expires_at


def _caller(conf: Conf, tx: Transaction, user_id: str) -> Caller | None:
    if conf.auth_strategy == "noauth":
        return NOAUTH if user_id == NOAUTH.user_id else None
    user = user_rows.read_one(tx, user_id)
    return None if user is None else users.caller_of(user)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
