"""The migrations make exactly the tables that the store works with, once, and come with the package."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from tests.builders.migrated import a_bare_database, copy_database, url_of
from zonesched import conf as options
from zonesched.errors import ConfigError
from zonesched.services.zone import Zone
from zonesched.store import schema, tables
from zonesched.store.schema import SchemaState
from zonesched.store.store import Store

ROOT = Path(__file__).parents[2]

METADATA = tables.instances.metadata


def an_empty_store(folder: Path, name: str = "zone") -> Store:
    return Store.open(a_bare_database(folder / f"{name}.sqlite"))


def migrate_all(tx: sa.Connection) -> None:
    schema.migrate(tx, "head")


def test_the_present_revision_is_that_of_the_last_migration(tmp_path: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)

    assert script.get_current_head() == schema.revisions()[0]
    assert {each.revision for each in script.walk_revisions()} == set(schema.revisions())


def test_the_migrated_schema_is_the_one_of_the_tables(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)

    store.write(migrate_all)

    assert store.read(_differences) == []


def _differences(tx: sa.Connection) -> object:
    return compare_metadata(MigrationContext.configure(tx, opts={"compare_type": True}), METADATA)


def test_the_migrated_schema_has_every_key_and_rule_of_the_tables(tmp_path: Path) -> None:
    migrated, made = an_empty_store(tmp_path), an_empty_store(tmp_path, "made")
    migrated.write(migrate_all)
    schema.upgrade(made)

    assert _rules(migrated) == _rules(made)
    assert (schema.state(migrated), schema.state(made)) == (SchemaState.CURRENT, SchemaState.CURRENT)


def _rules(store: Store) -> dict[str, object]:
    """Keys, unique rules, references, indexes, checks and columns by table."""

    def fn(tx: sa.Connection) -> dict[str, object]:
        found = sa.inspect(tx)
        return {
            name: (
                found.get_pk_constraint(name)["constrained_columns"],
                sorted(tuple(rule["column_names"]) for rule in found.get_unique_constraints(name)),
                sorted(
                    (tuple(key["constrained_columns"]), key["referred_table"], str(key["options"]))
                    for key in found.get_foreign_keys(name)
                ),
                sorted(
                    (
                        index["name"],
                        tuple(index["column_names"]),
                        sorted(f"{option} {value}" for option, value in index["dialect_options"].items()),
                    )
                    for index in found.get_indexes(name)
                ),
                sorted(str(rule["sqltext"]) for rule in found.get_check_constraints(name)),
                # Not their defaults: one that a migration filled rows with may stay.
                sorted((c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)),
            )
            for name in found.get_table_names()
        }

    return store.read(fn)


def test_a_database_says_how_far_it_is(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    empty = schema.state(store)

    schema.upgrade(store)
    current = schema.state(store)
    store.write(lambda tx: tx.execute(sa.text("update alembic_version set version_num = '9999'")))

    assert (empty, current) == (SchemaState.EMPTY, SchemaState.CURRENT)
    assert schema.state(store) is SchemaState.AHEAD


def test_an_upgrade_of_a_current_database_keeps_its_rows(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    schema.upgrade(store)
    store.write(lambda tx: tx.execute(sa.insert(tables.images).values(id="i", name="n", properties="{}")))

    schema.upgrade(store)

    assert store.read(lambda tx: tx.execute(sa.select(tables.images.c.id)).scalars().all()) == ["i"]


def test_a_database_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    schema.upgrade(store)
    store.write(lambda tx: tx.execute(sa.text("update alembic_version set version_num = '9999'")))

    with pytest.raises(ConfigError) as refused:
        schema.upgrade(store)

    assert all(text in refused.value.message for text in ("database_url", "9999", schema.revisions()[0]))
    assert schema.state(store) is SchemaState.AHEAD


def test_a_zone_does_not_start_on_a_database_of_a_later_version(tmp_path: Path) -> None:
    conf = options.load(overrides={"database_url": a_bare_database(tmp_path / "zone.sqlite")})
    Zone.open(conf).stop()
    store = Store.open(conf.database_url)
    store.write(lambda tx: tx.execute(sa.text("update alembic_version set version_num = '9999'")))
    store.close()

    with pytest.raises(ConfigError, match="9999"):
        Zone.open(conf)


def a_filled_store_of(revision: str, folder: Path) -> Store:
    """A database of an earlier version, with a row in every table."""
    path = folder / "zone.sqlite"
    copy_database(a_filled_database_of(revision), path)
    return Store.open(url_of(path))


@cache
def a_filled_database_of(revision: str) -> Path:
    path = own_folder() / f"filled-{revision}.sqlite"
    copy_database(a_database_of(revision), path)

    def fill(tx: sa.Connection) -> None:
        earlier = sa.MetaData()
        earlier.reflect(tx)
        for table in earlier.sorted_tables:
            if table.name != "alembic_version":
                tx.execute(sa.insert(table).values({c.name: a_value(c) for c in table.columns}))

    write_alone(path, fill)
    return path


@cache
def a_database_of(revision: str) -> Path:
    """A database of an earlier version without rows: that of the version before it, migrated."""
    path = own_folder() / f"{revision}.sqlite"
    before = schema.revisions()[schema.revisions().index(revision) + 1 :]
    if before:
        copy_database(a_database_of(before[0]), path)
    else:
        a_bare_database(path)
    write_alone(path, lambda tx: schema.migrate(tx, revision))
    return path


def write_alone(path: Path, fn: Callable[[sa.Connection], None]) -> None:
    store = Store.open(url_of(path))
    store.write(fn)
    # A copy is made of a database that nobody uses.
    store.close()


@cache
def own_folder() -> Path:
    """The folder of the databases that this process makes once."""
    folder = Path(tempfile.mkdtemp(prefix="zonesched-migrated-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def a_value(column: sa.Column[Any]) -> Any:
    """The same for a key and for what refers to it."""
    kind = column.type.python_type
    return {str: "x", int: 7, float: 7.5, bool: True}[kind]


@cache
def first_tables() -> frozenset[str]:
    """Tables of the first version; the rows put into an earlier version are theirs, at least."""
    with sa.create_engine("sqlite://").begin() as tx:
        schema.migrate(tx, "0001")
        return frozenset(sa.inspect(tx).get_table_names())


def rows_in(store: Store) -> dict[str, int]:
    """Columns of each table that the first version had."""

    def fn(tx: sa.Connection) -> dict[str, int]:
        every = [t for t in METADATA.sorted_tables if t.name in first_tables()]
        return {t.name: tx.execute(sa.select(sa.func.count()).select_from(t)).scalar_one() for t in every}

    return store.read(fn)


@pytest.fixture(scope="module")
def present_rules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Rules of a database that was made with the present schema."""
    direct = an_empty_store(tmp_path_factory.mktemp("direct"))
    schema.upgrade(direct)
    return _rules(direct)


@pytest.mark.parametrize("revision", schema.revisions()[1:])
def test_a_filled_database_of_an_earlier_version_is_brought_up_to_date(
    tmp_path: Path, present_rules: dict[str, object], revision: str
) -> None:
    store = a_filled_store_of(revision, tmp_path)
    behind = schema.state(store)

    schema.upgrade(store)

    assert (behind, schema.state(store)) == (SchemaState.BEHIND, SchemaState.CURRENT)
    assert store.read(_differences) == []
    assert _rules(store) == present_rules
    assert set(rows_in(store).values()) == {1}
    for table in (t for t in METADATA.sorted_tables if t.name in first_tables()):
        (row,) = store.read(lambda tx, table=table: tx.execute(sa.select(table)).mappings().all())
        assert all(row[c.name] is not None or c.nullable for c in table.columns)


@pytest.mark.parametrize(
    ("stored", "now"), [("silent", "unreachable"), ("not_fitting", "ineligible"), ("answered", "answered")]
)
def test_stored_traces_get_the_present_names_of_outcomes(tmp_path: Path, stored: str, now: str) -> None:
    store = a_filled_store_of("0006", tmp_path)
    trace = '{"children":[{"outcome":"%s","code":"silent"}]}'
    store.write(lambda tx: tx.execute(sa.update(tables.reservations).values(why=trace % stored)))

    schema.upgrade(store)

    assert store.read(lambda tx: tx.execute(sa.select(tables.reservations.c.why)).scalar_one()) == trace % now


def test_renamed_columns_keep_their_values(tmp_path: Path) -> None:
    store = a_filled_store_of("0007", tmp_path)

    schema.upgrade(store)

    for column, value in (
        (tables.quota_overrides.c.hard_limit, 7),
        (tables.reservations.c.wakes, 7),
        (tables.instances.c.passthrough, "x"),
    ):
        assert store.read(lambda tx, column=column: tx.execute(sa.select(column)).scalar_one()) == value


@pytest.mark.parametrize(
    ("resize", "sizes"),
    [
        ({"flavor": ""}, (1, 64)),
        ({"flavor": '{"vcpus":2,"ram":128}'}, (2, 128)),
        ({"flavor": "", "desired_flavor": '{"vcpus":3,"ram":192}', "observed_resizes_begun": 15}, (3, 192)),
    ],
    ids=["as booted", "resized", "waits for its confirmation"],
)
def test_instances_get_the_sizes_of_their_present_flavors(
    tmp_path: Path, resize: dict[str, object], sizes: tuple[int, int]
) -> None:
    store = a_filled_store_of("0037", tmp_path)
    boot = '{"flavor":{"id":"f","vcpus":1,"ram":64}}'
    store.write(lambda tx: tx.execute(sa.update(tables.reservations).values(spec=boot)))
    store.write(lambda tx: tx.execute(sa.update(tables.instance_states).values(resize)))

    schema.upgrade(store)

    columns = tables.instances.c.vcpus, tables.instances.c.ram_mb
    assert store.read(lambda tx: tx.execute(sa.select(*columns)).one()) == sizes


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        ("deleted_below", "deleted_in_child"),
        ("lost_below", "lost_in_child"),
        ("build_failed", "build_failed"),
    ],
)
@pytest.mark.parametrize("table", [tables.instances, tables.placements])
def test_stored_reasons_get_their_present_codes(
    tmp_path: Path, table: sa.Table, stored: str, now: str
) -> None:
    store = a_filled_store_of("0007", tmp_path)
    store.write(lambda tx: tx.execute(sa.update(table).values(reason=stored)))

    schema.upgrade(store)

    assert store.read(lambda tx: tx.execute(sa.select(table.c.reason)).scalar_one()) == now


def test_stored_traces_get_the_present_name_of_the_step_of_free_slots(tmp_path: Path) -> None:
    store = a_filled_store_of("0007", tmp_path)
    stored = '{"steps":[{"filter":"room","code":"no_room","before":2,"after":1}],"name":"room"}'
    store.write(lambda tx: tx.execute(sa.update(tables.reservations).values(why=stored)))

    schema.upgrade(store)

    (trace,) = store.read(lambda tx: tx.execute(sa.select(tables.reservations.c.why)).scalars().all())
    assert trace == (
        '{"steps":[{"filter":"free_slots","code":"no_free_slots","before":2,"after":1}],"name":"room"}'
    )


START = """
import sys
from zonesched.store import schema
from zonesched.store.store import Store
store = Store.open(sys.argv[1])
schema.upgrade(store)
print(schema.state(store).value)
"""


@pytest.mark.slow
def test_processes_that_start_together_on_an_earlier_version_migrate_it_once(tmp_path: Path) -> None:
    store = a_filled_store_of("0001", tmp_path)
    url = store.engine.url.render_as_string(hide_password=False)
    store.close()

    running = [
        subprocess.Popen([sys.executable, "-c", START, url], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = [process.communicate(timeout=120)[0].strip() for process in running]

    assert said == ["current"] * 4
    assert [process.returncode for process in running] == [0] * 4
    assert set(rows_in(store).values()) == {1}


def test_an_upgrade_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    store.write(lambda tx: tx.execute(sa.text("create table placements (x integer)")))

    with pytest.raises(sa.exc.DBAPIError):
        schema.upgrade(store)

    names = store.read(lambda tx: sa.inspect(tx).get_table_names())
    assert [name for name in names if name != "alembic_version"] == ["placements"]
    assert schema.state(store) is SchemaState.EMPTY


def test_processes_that_start_together_migrate_once(tmp_path: Path) -> None:
    url = a_bare_database(tmp_path / "zone.sqlite")
    stores = [Store.open(url) for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(schema.upgrade, stores))

    assert {schema.state(store) for store in stores} == {SchemaState.CURRENT}


@pytest.mark.once
@pytest.mark.slow
def test_a_built_package_has_the_migrations(tmp_path: Path) -> None:
    sources, built = _copy_of_sources(tmp_path), tmp_path / "built"

    build = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(built)]
    subprocess.run(build, cwd=sources, check=True, capture_output=True)

    folder = ROOT / "zonesched" / "store" / "migrations"
    expected = {path.relative_to(ROOT) for path in folder.rglob("*") if path.suffix in (".py", ".mako")}
    assert len(expected) >= 3
    assert all((built / path).is_file() for path in expected)


def _copy_of_sources(folder: Path) -> Path:
    """The package's sources, so that a build leaves nothing in the checkout."""
    copy = folder / "sources"
    shutil.copytree(ROOT / "zonesched", copy / "zonesched", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "etc", copy / "etc")
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, copy / name)
    return copy
