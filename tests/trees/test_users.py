"""Users of a zone: made, known again, removed; what proves them is told once and kept as a hash."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import clock_of
from tests.builders.crashes import Killed
from tests.builders.one_zone import (
    CHEAP_PASSWORDS,
    a_form,
    a_zone,
    add_hosts,
    put_instance,
    put_place,
    put_reservation,
    sql,
    used_on,
)
from zonesched.api.app import create_app
from zonesched.errors import BadRequest, Conflict, Forbidden, NotFound, Unauthorized
from zonesched.model.caller import Caller, Role
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.views import NewUser
from zonesched.seal import passwords
from zonesched.services.catalog import users
from zonesched.services.state.password_guard import FORGOTTEN_AFTER_S, FREE_OF_USER
from zonesched.services.zone import Zone
from zonesched.store.placements import ClaimedHost


@pytest.fixture(scope="module")
def old_town(tmp_path_factory: pytest.TempPathFactory) -> Zone:
    """A zone with a person and an agent, for tests that only ask who somebody is."""
    zone = a_zone(tmp_path_factory.mktemp("town"))
    users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p", "correct horse", cost=CHEAP_PASSWORDS)
    users.create(zone.store, zone.clock, "agent", Role.COMPUTE, "")
    return zone


@pytest.fixture
def town(old_town: Zone) -> Zone:
    """The same, long after all wrong passwords of another test."""
    clock_of(old_town).advance(FORGOTTEN_AFTER_S + 1)
    return old_town


def test_a_person_is_known_by_the_chosen_password(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    made = users.create(
        zone.store, zone.clock, "ann", Role.MEMBER, "project-1", "correct horse", cost=CHEAP_PASSWORDS
    )

    caller = users.authenticate(zone, "ann", "correct horse")

    assert made.secret == ""
    assert caller == Caller(made.user.id, "ann", Role.MEMBER, "project-1")


@pytest.mark.parametrize("role", list(Role))
def test_without_a_password_a_secret_is_generated_and_told_once(tmp_path: Path, role: Role) -> None:
    zone = a_zone(tmp_path)

    made = users.create(zone.store, zone.clock, "someone", role, "project-1")

    assert len(made.secret) == 43
    assert users.authenticate(zone, "someone", made.secret).role is role
    assert made.secret not in repr(made)
    assert users.list_users(zone.store) == [made.user]


@pytest.mark.sqlite
def test_neither_password_nor_secret_is_in_the_database(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    secret = users.create(zone.store, zone.clock, "agent", Role.COMPUTE, "").secret
    users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p", "correct horse", cost=CHEAP_PASSWORDS)
    users.authenticate(zone, "ann", "correct horse")

    zone.store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.rglob("zone.sqlite*"))

    assert b"correct horse" not in content
    assert secret.encode() not in content
    assert b"sha256$" in content
    assert b"scrypt$" in content


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ann", "wrong"),
        ("ann", ""),
        ("ann", "correct hors"),
        ("ann", "correct horse" + "e" * 2000),
        ("Ann", "correct horse"),
        ("ann\0", "correct horse"),
        ("nobody", "correct horse"),
        ("agent", "correct horse"),
        ("", ""),
        ("x" * 5000, "y"),
        ("ann", "\ud800"),
    ],
)
def test_whatever_is_wrong_the_refusal_is_the_same(town: Zone, name: str, password: str) -> None:
    with pytest.raises(Unauthorized) as refused:
        users.authenticate(town, name, password)

    assert (refused.value.message, refused.value.code) == ("The credentials are not valid.", "unauthorized")


@pytest.mark.parametrize("name", ["ann", "agent", "nobody"])
def test_a_refusal_costs_one_scrypt_whoever_was_named(
    town: Zone, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    counted = _count_scrypts(monkeypatch)

    for password in ("wrong", ""):
        with pytest.raises(Unauthorized):
            users.authenticate(town, name, password)

    cost = town.passwords.cost
    assert counted == [(cost.n, cost.r, cost.p)] * 2


def test_a_verified_password_costs_no_second_scrypt(town: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = _count_scrypts(monkeypatch)
    town.verified.drop(users.list_users(town.store)[1].id)

    for _ in range(3):
        users.authenticate(town, "ann", "correct horse")
    clock_of(town).advance(61)
    users.authenticate(town, "ann", "correct horse")

    assert len(counted) == 2


def _guess(zone: Zone, name: str, count: int = FREE_OF_USER) -> None:
    for _ in range(count):
        with pytest.raises(Unauthorized):
            users.authenticate(zone, name, "wrong", "192.0.2.1")


def test_after_several_wrong_passwords_the_next_has_to_wait(tmp_path: Path) -> None:
    # given
    zone = a_zone(tmp_path)
    users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p", "correct horse", cost=CHEAP_PASSWORDS)
    client = create_app(zone).test_client()
    statuses = [client.get("/servers", auth=("ann", "wrong")).status_code for _ in range(FREE_OF_USER)]
    # when
    paused = client.get("/servers", auth=("ann", "correct horse"))
    clock_of(zone).advance(1)
    # then
    assert statuses == [401] * FREE_OF_USER
    assert (paused.status_code, paused.headers["Retry-After"]) == (429, "1")
    assert paused.get_json()["overLimit"]["error_code"] == "too_many_wrong_passwords"
    assert client.get("/servers", auth=("ann", "correct horse")).status_code == 200


@pytest.mark.parametrize("age_s", [0, 61, 3600])
def test_a_password_that_was_right_before_is_taken_while_others_guess(tmp_path: Path, age_s: int) -> None:
    zone = a_zone(tmp_path)
    users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p", "correct horse", cost=CHEAP_PASSWORDS)
    users.authenticate(zone, "ann", "correct horse", "198.51.100.1")
    clock_of(zone).advance(age_s)
    _guess(zone, "ann")
    assert users.authenticate(zone, "ann", "correct horse", "203.0.113.1").name == "ann"


@pytest.mark.parametrize("name", ["agent", "root", "admin", "nobody"])
def test_a_generated_secret_never_waits_and_costs_no_scrypt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # given
    zone = a_zone(tmp_path)
    roles = {"agent": Role.COMPUTE, "root": Role.PARENT, "admin": Role.ADMIN}
    secrets = {
        known: users.create(zone.store, zone.clock, known, role, "").secret for known, role in roles.items()
    }
    _guess(zone, name)
    counted = _count_scrypts(monkeypatch)
    # when
    for _ in range(100):
        with pytest.raises(Unauthorized):
            users.authenticate(zone, name, "w" * 43, "192.0.2.1")
    if name in secrets:
        assert users.authenticate(zone, name, secrets[name], "192.0.2.1").name == name
    # then
    assert not counted


def test_nobody_chooses_a_password_that_looks_like_a_generated_secret(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    with pytest.raises(BadRequest) as refused:
        users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p", "w" * 43)
    assert (refused.value.code, refused.value.field) == ("password_not_allowed", "user.password")


def test_the_credentials_of_a_removed_user_end_at_once(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    secret = users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p").secret
    users.authenticate(zone, "ann", secret)

    users.delete(zone.store, zone.verified, "ann")

    with pytest.raises(Unauthorized):
        users.authenticate(zone, "ann", secret)


def test_a_removed_user_whose_name_is_given_again_is_somebody_else(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    first = users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p")
    users.authenticate(zone, "ann", first.secret)
    users.delete(zone.store, zone.verified, "ann")

    second = users.create(zone.store, zone.clock, "ann", Role.READER, "p")

    assert first.user.id != second.user.id
    with pytest.raises(Unauthorized):
        users.authenticate(zone, "ann", first.secret)


def test_a_name_in_use_is_refused(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    secret = users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p").secret

    with pytest.raises(Conflict) as refused:
        users.create(zone.store, zone.clock, "ann", Role.ADMIN, "p")

    assert refused.value.code == "user_exists"
    assert users.authenticate(zone, "ann", secret).role is Role.MEMBER


@pytest.mark.parametrize("name", ["", "a:b", "-ann", "ann\n", "a" * 256, "änn", "a b"])
def test_a_name_that_basic_authentication_cannot_carry_is_refused(tmp_path: Path, name: str) -> None:
    zone = a_zone(tmp_path)

    with pytest.raises(BadRequest) as refused:
        users.create(zone.store, zone.clock, name, Role.MEMBER, "p", "correct horse", cost=CHEAP_PASSWORDS)

    assert refused.value.field == "user.name"


@pytest.mark.parametrize(
    ("role", "password", "code"),
    [
        (Role.COMPUTE, "correct horse", "password_not_allowed"),
        (Role.PARENT, "correct horse", "password_not_allowed"),
        (Role.MEMBER, "x" * 1025, "too_long"),
    ],
)
def test_a_password_that_may_not_be_is_refused(tmp_path: Path, role: Role, password: str, code: str) -> None:
    zone = a_zone(tmp_path)

    with pytest.raises(BadRequest) as refused:
        users.create(zone.store, zone.clock, "someone", role, "p", password)

    assert (refused.value.code, refused.value.field) == (code, "user.password")
    assert password not in refused.value.message
    assert users.list_users(zone.store) == []


@pytest.mark.parametrize(
    ("role", "password"), [(Role.MEMBER, "better horse"), (Role.MEMBER, ""), (Role.PARENT, "")]
)
def test_another_secret_ends_the_old_one_at_once_and_the_user_stays(
    tmp_path: Path, role: Role, password: str
) -> None:
    zone = a_zone(tmp_path)
    first = users.create(zone.store, zone.clock, "ann", role, "p")
    users.authenticate(zone, "ann", first.secret)

    changed = users.set_secret(zone, "ann", password)

    assert changed.user == first.user
    assert bool(changed.secret) is not bool(password)
    assert users.authenticate(zone, "ann", changed.secret or password).user_id == first.user.id
    with pytest.raises(Unauthorized):
        users.authenticate(zone, "ann", first.secret)


def test_a_zone_hashes_at_the_full_cost_unless_a_test_says_otherwise(tmp_path: Path) -> None:
    cheap = a_zone(tmp_path)
    zone = Zone.open(cheap.conf, clock=cheap.clock, executor=cheap.executor, store=cheap.store)

    users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p")
    users.set_secret(zone, "ann", "correct horse")

    [(stored,)] = sql(zone, "select secret from users")
    assert stored.startswith(f"scrypt${passwords.PERSON.n}${passwords.PERSON.r}${passwords.PERSON.p}$")


def test_another_password_is_kept_as_a_hash(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    users.authenticate(zone, "ann", users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p").secret)

    users.set_secret(zone, "ann", "better horse")

    [(stored,)] = sql(zone, "select secret from users")
    assert stored.startswith("scrypt$")
    assert zone.verified._verified == {}


def test_who_changes_the_own_password_does_not_undo_what_an_admin_replaces_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = a_zone(tmp_path)
    users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p", "stolen horse")
    caller = users.authenticate(zone, "ann", "stolen horse")
    clock = zone.clock

    def random_bytes(count: int) -> bytes:
        # The stolen password was checked, and the salt of the next one is made.
        monkeypatch.undo()
        users.set_secret(zone, "ann", "admin's horse")
        return clock.random_bytes(count)

    monkeypatch.setattr(clock, "random_bytes", random_bytes)
    with pytest.raises(Forbidden) as refused:
        users.change_own_password(zone, caller, "ann", "stolen horse", "thief's horse")

    assert refused.value.code == "password_wrong"
    assert users.authenticate(zone, "ann", "admin's horse").name == "ann"
    with pytest.raises(Unauthorized):
        users.authenticate(zone, "ann", "thief's horse")


@pytest.mark.parametrize(
    ("role", "password", "code"),
    [
        (Role.PARENT, "better horse", "password_not_allowed"),
        (Role.COMPUTE, "better horse", "password_not_allowed"),
        (Role.MEMBER, "x" * 1025, "too_long"),
    ],
)
def test_a_refused_change_changes_nothing(tmp_path: Path, role: Role, password: str, code: str) -> None:
    zone = a_zone(tmp_path)
    secret = users.create(zone.store, zone.clock, "someone", role, "p").secret

    with pytest.raises(BadRequest) as refused:
        users.set_secret(zone, "someone", password)

    assert (refused.value.code, refused.value.field) == (code, "user.password")
    assert users.authenticate(zone, "someone", secret).name == "someone"
    with pytest.raises(NotFound):
        users.set_secret(zone, "nobody")


@pytest.mark.parametrize("state", ["INTENDED", "HELD", "CONFIRMING", "CONFIRMED"])
def test_a_parent_with_instances_here_stays_unless_by_force(tmp_path: Path, state: str) -> None:
    zone = a_zone(tmp_path)
    [host_id] = add_hosts(zone, a_form("h"))
    parent = users.create(zone.store, zone.clock, "root", Role.PARENT, "").user
    users.create(zone.store, zone.clock, "other", Role.PARENT, "")
    put_reservation(zone, caller_id=parent.id)
    uuid = put_instance(zone, caller_id=parent.id)
    put_place(zone, uuid, ClaimedHost(host_id, {"VCPU": 1}), caller_id=parent.id, state=PlacementState[state])

    with pytest.raises(Conflict) as refused:
        users.delete(zone.store, zone.verified, "root")
    users.delete(zone.store, zone.verified, "other")

    assert (refused.value.code, refused.value.field) == ("user_has_instances", "name")
    assert [user.name for user in users.list_users(zone.store)] == ["root"]
    users.delete(zone.store, zone.verified, "root", force=True)
    assert users.list_users(zone.store) == []
    assert used_on(zone, host_id)["VCPU"] == 1


@pytest.mark.parametrize("state", ["GONE", "FAILED", "RELEASED"])
def test_a_parent_whose_instances_have_ended_can_go(tmp_path: Path, state: str) -> None:
    zone = a_zone(tmp_path)
    [host_id] = add_hosts(zone, a_form("h"))
    parent = users.create(zone.store, zone.clock, "root", Role.PARENT, "").user
    put_reservation(zone, caller_id=parent.id)
    uuid = put_instance(zone, caller_id=parent.id, status=InstanceStatus.DELETED)
    where = ClaimedHost(host_id, {"VCPU": 1})
    put_place(zone, uuid, where, caller_id=parent.id, state=PlacementState[state], claimed=False)

    users.delete(zone.store, zone.verified, "root")

    assert users.list_users(zone.store) == []


def test_the_last_admin_stays(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    users.create(zone.store, zone.clock, "one", Role.ADMIN, "p")
    users.create(zone.store, zone.clock, "two", Role.ADMIN, "p")
    users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p")

    users.delete(zone.store, zone.verified, "one")
    with pytest.raises(Conflict) as refused:
        users.delete(zone.store, zone.verified, "two")
    users.delete(zone.store, zone.verified, "ann")

    assert refused.value.code == "last_admin"
    assert [user.name for user in users.list_users(zone.store)] == ["two"]


def test_an_unknown_user_is_not_found(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    with pytest.raises(NotFound) as refused:
        users.delete(zone.store, zone.verified, "nobody")

    assert refused.value.code == "user_not_found"


def test_a_zone_without_users_gets_its_first_admin_once(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    kept: list[NewUser] = []
    first = users.create_first_admin(zone.store, zone.clock, kept.append)
    again = users.create_first_admin(zone.store, zone.clock, kept.append)

    assert first is not None
    assert again is None
    assert kept == [first]
    assert users.authenticate(zone, first.user.name, first.secret).role is Role.ADMIN


def test_an_admin_whom_nobody_could_be_is_not_made(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    def die(admin: NewUser) -> None:
        raise Killed

    with pytest.raises(Killed):
        users.create_first_admin(zone.store, zone.clock, die)

    assert users.list_users(zone.store) == []
    assert users.create_first_admin(zone.store, zone.clock, lambda admin: None) is not None


def test_a_zone_with_any_user_gets_no_first_admin(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    users.create(zone.store, zone.clock, "ann", Role.MEMBER, "p")

    kept: list[NewUser] = []
    assert users.create_first_admin(zone.store, zone.clock, kept.append) is None
    assert kept == []
    assert sql(zone, "select count(*) from users") == [(1,)]


def _count_scrypts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows by the cost of each scrypt."""
    counted: list[Any] = []
    real = hashlib.scrypt

    def counting(*args: Any, **kwargs: Any) -> bytes:
        counted.append((kwargs["n"], kwargs["r"], kwargs["p"]))
        made: bytes = real(*args, **kwargs)
        return made

    monkeypatch.setattr(hashlib, "scrypt", counting)
    return counted


def test_users_are_listed_by_name(tmp_path: Path) -> None:
    zone: Zone = a_zone(tmp_path)
    for name in ("zoe", "ann", "max"):
        users.create(zone.store, zone.clock, name, Role.READER, "p")

    assert [user.name for user in users.list_users(zone.store)] == ["ann", "max", "zoe"]
