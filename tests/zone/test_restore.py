"""Copies of an SQLite database: made while a zone runs, and put back over what a crash has left."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.command import Command
from tests.builders.one_zone import a_zone
from zonesched.model.catalog import CatalogFlavor
from zonesched.model.request_spec import Flavor
from zonesched.services.catalog import flavors
from zonesched.services.zone import Zone
from zonesched.store import copies

pytestmark = pytest.mark.sqlite


def add_flavor(zone: Zone, name: str) -> None:
    flavors.create(zone.store, CatalogFlavor(Flavor(name, name, 1, 1, 1)))


def flavors_in(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as rows:
        return {name for (name,) in rows.execute("select name from flavors")}


def uuid_in(database: Path) -> str:
    with closing(sqlite3.connect(database)) as rows:
        return str(rows.execute("select zone_uuid from identity").fetchone()[0])


def a_crashed_zone(folder: Path, files: Path) -> None:
    """Put into `files` what a zone leaves that crashes after it wrote the flavor "after"."""
    zone = a_zone(folder)
    add_flavor(zone, "after")
    files.mkdir(exist_ok=True)
    for path in folder.glob("zone.sqlite*"):
        shutil.copy(path, files)
    zone.store.close()
    assert (files / "zone.sqlite-wal").stat().st_size > 0


class Database:
    """`zonesched db` with the configuration of one zone."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path, url: str = "") -> None:
        self.file = folder / "zone.sqlite"
        config = folder.parent / f"{folder.name}.conf"
        config.write_text(f"[DEFAULT]\ndatabase_url = {url or f'sqlite:///{self.file}'}\n")
        self._run = Command(capsys, "db")
        self._config = f"--config-file={config}"

    def backup(self, copy: Path) -> int:
        return self._run("backup", str(copy), self._config)

    def restore(self, copy: Path, *options: str) -> int:
        return self._run("restore", str(copy), self._config, *options)

    def restored(self) -> int:
        return self._run("restored", self._config)

    @property
    def out(self) -> str:
        return self._run.out

    @property
    def err(self) -> str:
        return self._run.err


@pytest.fixture
def database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Database:
    return Database(capsys, tmp_path / "lived")


@pytest.fixture
def copy(tmp_path: Path, database: Database) -> Path:
    """A copy of the running zone's database, which has the flavor "before"."""
    zone = a_zone(database.file.parent)
    add_flavor(zone, "before")
    copy = tmp_path / "copy.sqlite"
    assert database.backup(copy) == 0, database.err
    zone.store.close()
    return copy


def test_a_copy_of_a_running_zone_is_one_whole_file_for_its_owner_only(copy: Path) -> None:
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert flavors_in(copy) == {"before"}
    assert [path.name for path in copy.parent.glob("copy.sqlite*")] == ["copy.sqlite"]


def test_a_copy_of_a_stopped_zone_is_made_as_well(tmp_path: Path, database: Database, copy: Path) -> None:
    assert database.backup(tmp_path / "second.sqlite") == 0

    assert flavors_in(tmp_path / "second.sqlite") == {"before"}


def test_a_backup_keeps_an_older_one(database: Database, copy: Path) -> None:
    before = copy.read_bytes()

    assert database.backup(copy) == 1

    assert "exists already" in database.err
    assert copy.read_bytes() == before


def test_a_backup_beside_one_that_is_killed_has_its_own_rows(
    tmp_path: Path, database: Database, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given another backup to the same file, which begins just before this one is done, and is killed
    link, second = os.link, tmp_path / "second.sqlite"

    def link_late(part: Path, to: Path) -> None:
        other = os.fork()
        if not other:
            monkeypatch.setattr(copies, "_opened", lambda *_: os._exit(0))
            copies.back_up(database.file, to)
        os.waitpid(other, 0)
        link(part, to)

    # When
    monkeypatch.setattr(os, "link", link_late)
    made = database.backup(second)

    # Then
    assert (made, flavors_in(second)) == (0, {"before"})


@pytest.mark.usefixtures("copy")
@pytest.mark.parametrize("is_there", [False, True])
def test_a_backup_needs_no_hard_links(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    # given a file system without them, on which somebody may have made that file meanwhile
    to = tmp_path / "second.sqlite"

    def link(_part: Path, copy: Path) -> None:
        if is_there:
            copy.write_text("mine")
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", link)
    # when
    made = database.backup(to)
    # then
    assert [path.name for path in tmp_path.glob("second*")] == [to.name]
    if is_there:
        assert (made, to.read_text()) == (1, "mine")
    else:
        assert (made, flavors_in(to), stat.S_IMODE(to.stat().st_mode)) == (0, {"before"}, 0o600)


def test_a_backup_that_its_disk_cannot_take_says_so_and_leaves_nothing(
    tmp_path: Path, database: Database, copy: Path
) -> None:
    _, most = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most))
    try:
        made = database.backup(tmp_path / "second.sqlite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert made == 1
    assert f"cannot be copied to {tmp_path}/second.sqlite: disk I/O error" in database.err
    assert list(tmp_path.glob("second*")) == []


def test_the_log_of_a_crashed_zone_does_not_undo_a_restore(database: Database, copy: Path) -> None:
    files = database.file.parent
    a_crashed_zone(files, files.parent / "crashed")
    for path in (files.parent / "crashed").iterdir():
        shutil.copy(path, files)
    assert flavors_in(database.file) == {"before", "after"}
    for path in (files.parent / "crashed").iterdir():
        shutil.copy(path, files)

    assert database.restore(copy) == 0, database.err

    assert [path.name for path in files.glob("zone.sqlite*")] == ["zone.sqlite"]
    assert stat.S_IMODE(database.file.stat().st_mode) == 0o600
    assert flavors_in(database.file) == {"before"}
    assert re.search(r"start the zone, .*zonesched audit --repair", database.out)


def test_a_log_without_its_database_does_not_undo_a_restore(database: Database, copy: Path) -> None:
    files = database.file.parent
    a_crashed_zone(files, files.parent / "crashed")
    for path in (files.parent / "crashed").iterdir():
        shutil.copy(path, files)
    database.file.unlink()

    assert database.restore(copy) == 0, database.err

    assert flavors_in(database.file) == {"before"}


def test_a_restored_zone_starts_and_writes(database: Database, copy: Path) -> None:
    assert database.restore(copy) == 0

    zone = a_zone(database.file.parent)

    add_flavor(zone, "again")
    assert zone.uuid == uuid_in(copy)
    assert flavors_in(database.file) == {"before", "again"}
    zone.store.close()


def test_a_restore_is_refused_while_a_process_uses_the_database(database: Database, copy: Path) -> None:
    zone = a_zone(database.file.parent)
    add_flavor(zone, "after")

    assert (database.restore(copy), database.restored()) == (1, 1)
    assert not zone.restored.is_under_way

    assert "is in use: stop all processes of its zone first" in database.err
    add_flavor(zone, "later")
    assert flavors_in(database.file) == {"before", "after", "later"}
    zone.store.close()
    assert database.restore(copy) == 0
    assert flavors_in(database.file) == {"before"}


def test_a_restore_removes_what_one_that_was_killed_has_left(database: Database, copy: Path) -> None:
    left = database.file.with_name(f"{database.file.name}.restore-1")
    left.mkdir()
    (left / "restored").write_bytes(copy.read_bytes())

    assert database.restore(copy) == 0

    assert not left.exists()


def test_the_database_of_another_zone_is_replaced_only_where_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], copy: Path
) -> None:
    other = Database(capsys, tmp_path / "other")
    a_zone(other.file.parent, FakeClock(seed=1)).store.close()
    assert uuid_in(other.file) != uuid_in(copy)

    assert other.restore(copy) == 1

    assert uuid_in(other.file) in other.err
    assert flavors_in(other.file) == set()
    assert other.restore(copy, "--other-zone") == 0
    assert uuid_in(other.file) == uuid_in(copy)


def test_a_copy_makes_the_database_of_a_new_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], copy: Path
) -> None:
    new = Database(capsys, tmp_path / "new")

    assert new.restore(copy) == 0, new.err

    assert uuid_in(new.file) == uuid_in(copy)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (new.file.parent, new.file)] == [0o700, 0o600]


def test_a_copy_of_a_later_version_is_refused(database: Database, copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as rows, rows:
        rows.execute("update alembic_version set version_num = '9999'")

    assert database.restore(copy) == 1

    assert "a later version of zonesched" in database.err
    assert flavors_in(database.file) == {"before"}


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "none", "inside"])
def test_a_damaged_copy_is_refused_and_changes_nothing(database: Database, copy: Path, damage: str) -> None:
    whole = copy.read_bytes()
    made = {"cut": whole[: len(whole) // 2], "text": b"no database", "empty": b""}
    if damage == "none":
        copy.unlink()
    elif damage == "inside":
        copy.write_bytes(whole[: len(whole) // 2] + b"\xff" * 8192 + whole[len(whole) // 2 + 8192 :])
    else:
        copy.write_bytes(made[damage])
    before = database.file.read_bytes()

    assert database.restore(copy) == 1

    assert "copy.sqlite" in database.err
    assert "(copy_refused)" in database.err
    assert database.file.read_bytes() == before


def test_a_damaged_database_is_named_with_what_to_do(database: Database, copy: Path) -> None:
    database.file.write_bytes(b"no database any more" * 400)

    assert database.restore(copy) == 1
    assert re.search(r"zone\.sqlite cannot be used.*move it away", database.err)

    database.file.rename(database.file.with_name("damaged"))
    assert database.restore(copy) == 0
    assert flavors_in(database.file) == {"before"}


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_postgresql_is_left_to_its_own_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    database = Database(capsys, tmp_path / "none", "postgresql+psycopg://zone:secret@db.example/zone")

    assert getattr(database, command)(tmp_path / "copy") == 1

    assert ("pg_dump" in database.err, "pg_restore" in database.err) == (True, True)
    assert "secret" not in database.err
