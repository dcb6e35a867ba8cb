"""The migrations make exactly the tables that the store works with, once, and come with the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from zonesched.store import schema, tables
from zonesched.store.schema import SchemaState
from zonesched.store.store import Store

ROOT = Path(__file__).parent.parent


def an_empty_store(folder: Path) -> Store:
    return Store.open(f"sqlite:///{folder}/zone.sqlite")


def test_the_migrated_schema_is_the_one_of_the_tables(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)

    schema.upgrade(store)

    def compare(tx: sa.Connection) -> object:
        return compare_metadata(MigrationContext.configure(tx, opts={"compare_type": True}), tables.metadata)

    assert store.read(compare) == []


def test_the_migrated_schema_has_every_key_and_rule_of_the_tables(tmp_path: Path) -> None:
    migrated, direct = an_empty_store(tmp_path), Store.open(f"sqlite:///{tmp_path}/direct.sqlite")
    schema.upgrade(migrated)
    direct.write(tables.metadata.create_all)

    assert _rules(migrated) == _rules(direct)


def _rules(store: Store) -> dict[str, object]:
    """Keys, unique rules, references and indexes by table."""

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
                sorted((index["name"], tuple(index["column_names"])) for index in found.get_indexes(name)),
            )
            for name in found.get_table_names()
            if name != "alembic_version"
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


def test_a_database_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    schema.upgrade(store)
    store.write(lambda tx: tx.execute(sa.text("update alembic_version set version_num = '9999'")))

    schema.upgrade(store)

    assert schema.state(store) is SchemaState.AHEAD


def test_an_upgrade_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    store.write(lambda tx: tx.execute(sa.text("create table placements (x integer)")))

    with pytest.raises(sa.exc.OperationalError):
        schema.upgrade(store)

    names = store.read(lambda tx: sa.inspect(tx).get_table_names())
    assert [name for name in names if name != "alembic_version"] == ["placements"]
    assert schema.state(store) is SchemaState.EMPTY


def test_processes_that_start_together_migrate_once(tmp_path: Path) -> None:
    stores = [an_empty_store(tmp_path) for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(schema.upgrade, stores))

    assert {schema.state(store) for store in stores} == {SchemaState.CURRENT}


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
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, copy / name)
    return copy
