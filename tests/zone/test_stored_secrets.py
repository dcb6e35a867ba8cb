"""Secrets in a zone's rows: encrypted where there is a key, re-encrypted under a new one, refused without."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from tests.builders.migrated import copy_database
from tests.builders.one_zone import RESERVATION, a_spec, a_zone, sql
from tests.builders.tree import Tree, a_host
from zonesched.errors import ConfigError
from zonesched.services.state import stored_secrets
from zonesched.services.state.child_rows import StoredChildren
from zonesched.services.zone import Zone
from zonesched.store import children, identity, instances, passthroughs
from zonesched.store.children import ChildRow
from zonesched.store.identity import Identity

OLD, NEW, OTHER = "1a" * 32, "2b" * 32, "3c" * 32
USER_DATA = base64.b64encode(b"#cloud-config with a password").decode()


def opened(folder: Path, *keys: str) -> Zone:
    folder.mkdir(exist_ok=True)
    return a_zone(folder, secret_encryption_key=list(keys))


def stored_secret(zone: Zone) -> str:
    return str(sql(zone, "SELECT host_id_secret FROM identity")[0][0])


def reopened(zone: Zone, folder: Path, *keys: str) -> Zone:
    zone.stop()
    return opened(folder, *keys)


def test_a_new_zone_with_a_key_never_stores_its_secret_in_the_clear(tmp_path: Path) -> None:
    zone = opened(tmp_path, OLD)
    assert zone.host_id_secret not in stored_secret(zone)
    assert zone.secret_box.is_current(stored_secret(zone))
    again = reopened(zone, tmp_path, OLD)
    assert again.host_id_secret == zone.host_id_secret
    again.stop()


def test_a_zone_that_gets_a_key_later_keeps_its_secret_and_encrypts_it(tmp_path: Path) -> None:
    zone = opened(tmp_path)
    assert stored_secret(zone) == zone.host_id_secret
    hidden = zone.tenant_host_id("p", "h")

    again = reopened(zone, tmp_path, NEW)

    assert (again.host_id_secret, again.tenant_host_id("p", "h")) == (zone.host_id_secret, hidden)
    assert again.secret_box.is_current(stored_secret(again))
    again.stop()


@pytest.mark.parametrize(
    ("keys", "says"),
    [((), "no key is set"), ((OTHER,), "under another key"), ((OTHER, NEW), "under another key")],
)
def test_without_its_key_a_zone_does_not_start_and_changes_nothing(
    tmp_path: Path, keys: tuple[str, ...], says: str
) -> None:
    zone = opened(tmp_path, OLD)
    zone.stop()
    before = rows(zone)

    with pytest.raises(ConfigError, match=says) as refused:
        opened(tmp_path, *keys)

    assert refused.value.field == "secret_encryption_key"
    assert not any(key in refused.value.message for key in (OLD, NEW, OTHER))
    assert rows(zone) == before


def rows(zone: Zone) -> Any:
    return [sql(zone, f"SELECT * FROM {table}") for table in ("identity", "epochs", "counters")]


def test_a_copy_of_the_database_opens_with_the_same_key_alone(tmp_path: Path) -> None:
    zone = opened(tmp_path / "zone", OLD)
    zone.stop()
    (tmp_path / "copy").mkdir()
    copy_database(tmp_path / "zone" / "zone.sqlite", tmp_path / "copy" / "zone.sqlite")
    with pytest.raises(ConfigError, match="under another key"):
        opened(tmp_path / "copy", OTHER)
    copy = opened(tmp_path / "copy", OLD)
    assert (copy.uuid, copy.host_id_secret) == (zone.uuid, zone.host_id_secret)
    copy.stop()


def test_the_secret_of_another_zone_is_refused(tmp_path: Path) -> None:
    zone, clock = opened(tmp_path / "a", OLD), FakeClock()
    clock.new_uuid()
    other = a_zone(tmp_path, clock=clock, secret_encryption_key=[OLD])
    assert other.uuid != zone.uuid
    text = stored_secret(other)
    other.stop()
    sql(zone, f"UPDATE identity SET host_id_secret = '{text}'")
    zone.stop()
    with pytest.raises(ConfigError, match="from another zone's database"):
        opened(tmp_path / "a", OLD)


def put_instance(zone: Zone, **passthrough: Any) -> None:
    made = instances.of_request(
        a_spec(),
        uuid=zone.clock.new_uuid(),
        reservation_id=RESERVATION,
        caller_id=zone.uuid,
        user_id=zone.clock.new_uuid(),
        position=0,
        name="vm",
        now=0.0,
        passthrough=passthrough,
    )
    zone.store.write(lambda tx: instances.insert(tx, 1, [made]))


def put_child(zone: Zone) -> None:
    child_id = zone.clock.new_uuid()
    password = zone.secret_box.encrypt("children", child_id, "password", "sekret")
    row = ChildRow(child_id, "leaf", "http://127.0.0.1:1", "parent", password, 0.0, 1.0)
    zone.store.write(lambda tx: children.insert(tx, row))


def user_data_of(zone: Zone) -> list[str]:
    uuids = zone.store.read(lambda tx: passthroughs.uuids(tx, "user_data", "", 100, but="none"))
    found = zone.store.read(lambda tx: passthroughs.read(tx, uuids))
    texts = [stored_secrets.user_data(zone.secret_box, row.reservation_id, row.passthrough) for row in found]
    return [text for text in texts if text]


def in_the_clear(zone: Zone) -> int:
    return sum(USER_DATA in row.passthrough for row in sql(zone, "SELECT passthrough FROM instances"))


def test_what_is_in_the_clear_is_encrypted_at_the_first_start_with_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given: more instances than are read at once, and some with other members
    monkeypatch.setattr(stored_secrets, "CHUNK", 2)
    zone = opened(tmp_path)
    for _ in range(5):
        put_instance(zone, user_data=USER_DATA, tags=["a"])
    put_instance(zone, metadata={"user_data": "mine"})
    others = "SELECT passthrough FROM instances WHERE passthrough LIKE '%mine%'"
    before = sql(zone, others)
    assert in_the_clear(zone) == 5

    again = reopened(zone, tmp_path, OLD)

    assert in_the_clear(again) == 0
    assert user_data_of(again) == [USER_DATA] * 5
    assert sql(again, others) == before
    again.stop()


def test_a_new_key_in_front_of_the_old_one_replaces_it_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="zonesched")
    # given: a zone with a child and an instance
    zone = opened(tmp_path, OLD)
    put_child(zone)
    put_instance(zone, **stored_secrets.protected(zone.secret_box, RESERVATION, {"user_data": USER_DATA}))
    assert in_the_clear(zone) == 0

    # when
    caplog.clear()
    both = reopened(zone, tmp_path, NEW, OLD)
    assert caplog.text.count("encrypted the zone's secrets under the first secret_encryption_key") == 1
    new = reopened(both, tmp_path, NEW)

    # then: the old key is needed no more, as the log has said once
    assert caplog.text.count("encrypted the zone's secrets") == 1
    assert new.host_id_secret == zone.host_id_secret
    assert user_data_of(new) == [USER_DATA]
    [child] = StoredChildren(new.store, new.secret_box).list_children()
    assert child.password == "sekret"
    new.stop()


def test_what_another_process_stores_during_a_rotation_is_encrypted_when_that_one_starts_again(
    tmp_path: Path,
) -> None:
    # given a zone of two processes, of which one has got the new key in front
    early = opened(tmp_path, OLD, NEW)
    put_child(early)
    late = opened(tmp_path, NEW, OLD)
    # when the other one still stores something, and is then restarted like the first
    put_child(early)
    put_instance(early, **stored_secrets.protected(early.secret_box, RESERVATION, {"user_data": USER_DATA}))
    early.stop()
    opened(tmp_path, NEW, OLD).stop()
    # then the old key is needed no more
    new = reopened(late, tmp_path, NEW)
    passwords = [child.password for child in StoredChildren(new.store, new.secret_box).list_children()]
    assert (passwords, user_data_of(new)) == (["sekret"] * 2, [USER_DATA])
    new.stop()


def test_what_is_encrypted_is_not_written_again_while_there_is_an_older_key(tmp_path: Path) -> None:
    zone = opened(tmp_path, NEW, OLD)
    put_child(zone)
    put_instance(zone, **stored_secrets.protected(zone.secret_box, RESERVATION, {"user_data": USER_DATA}))
    rows = "SELECT password FROM children UNION ALL SELECT passthrough FROM instances"
    before = sql(zone, rows)

    again = reopened(zone, tmp_path, NEW, OLD)

    assert sql(again, rows) == before
    assert user_data_of(again) == [USER_DATA]
    again.stop()


def test_a_start_that_was_cut_off_goes_on_at_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = opened(tmp_path)
    monkeypatch.setattr(stored_secrets, "CHUNK", 2)
    for _ in range(5):
        put_instance(zone, user_data=USER_DATA)
    zone.stop()
    read, calls = passthroughs.uuids, []

    def fails_later(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return read(*arguments, **named)

    with monkeypatch.context() as cut:
        cut.setattr(passthroughs, "uuids", fails_later)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path, NEW)
    again = opened(tmp_path, NEW)

    assert (in_the_clear(again), user_data_of(again)) == (0, [USER_DATA] * 5)
    again.stop()


@pytest.mark.parametrize("keys", [[OLD], []])
def test_user_data_of_a_boot_is_stored_as_the_key_says(tmp_path: Path, keys: list[str]) -> None:
    node = Tree(tmp_path).add("zone", hosts_=[a_host("h1")], secret_encryption_key=keys)
    node.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1, "disk": 1}})
    server = {"name": "vm", "flavorRef": "small", "num_instances": 3, "user_data": USER_DATA}

    answer = node.client("member").post("/zones/boot", {"server": server})

    assert answer.status == 202
    assert in_the_clear(node.zone) == (0 if keys else 3)
    assert user_data_of(node.zone) == [USER_DATA] * 3


def test_what_another_process_has_stored_since_is_not_replaced_by_an_older_secret(tmp_path: Path) -> None:
    # given a process that has read a child and the zone's own secret to encrypt them, and another one
    zone = opened(tmp_path, OLD)
    put_child(zone)
    (child,) = zone.store.read(children.read_all)
    me = Identity(zone.uuid, stored_secret(zone))
    sql(zone, "UPDATE children SET password = 'set since'")
    sql(zone, "UPDATE identity SET host_id_secret = 'encrypted since'")

    # when it writes what it has made of them
    zone.store.write(lambda tx: children.set_password(tx, child, "of the old one"))
    zone.store.write(lambda tx: identity.replace_secret(tx, me, "of the old one"))

    # then both are as the other one has left them
    assert sql(zone, "SELECT password FROM children") == [("set since",)]
    assert stored_secret(zone) == "encrypted since"
