"""A copy of an SQLite database is put back over what a crashed zone has left, as docs/operate.md says."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.builders.one_zone import a_zone
from zonesched.model.catalog import CatalogFlavor
from zonesched.model.request_spec import Flavor
from zonesched.services.catalog import flavors
from zonesched.store.store import Store

pytestmark = pytest.mark.sqlite
OPERATE = Path(__file__).parents[2] / "docs" / "operate.md"


def a_crashed_zone(folder: Path) -> Path:
    """Leave the files of a zone that crashed after it wrote a flavor that `copy.sqlite` does not have."""
    (folder / "lived").mkdir()
    (folder / "zone-state").mkdir()
    zone = a_zone(folder / "lived")
    flavors.create(zone.store, CatalogFlavor(Flavor("before", "before", 1, 1, 1)))
    copy = sqlite3.connect(folder / "copy.sqlite")
    sqlite3.connect(folder / "lived" / "zone.sqlite").backup(copy)
    copy.close()
    flavors.create(zone.store, CatalogFlavor(Flavor("after", "after", 1, 1, 1)))
    for path in (folder / "lived").glob("zone.sqlite*"):
        shutil.copy(path, folder / "zone-state")
    zone.store.close()
    assert (folder / "zone-state" / "zone.sqlite-wal").stat().st_size > 0
    return folder


def flavors_in(folder: Path) -> set[str]:
    store = Store.open(f"sqlite:///{folder / 'zone-state' / 'zone.sqlite'}")
    try:
        with sqlite3.connect(folder / "zone-state" / "zone.sqlite") as rows:
            return {name for (name,) in rows.execute("select name from flavors")}
    finally:
        store.close()


def test_the_commands_of_the_page_put_the_copy_back(tmp_path: Path) -> None:
    folder = a_crashed_zone(tmp_path)
    (commands,) = re.findall(r"^   (rm -f zone-state.*?)\n   ```", OPERATE.read_text(), re.M | re.S)

    subprocess.run(commands, shell=True, cwd=folder, check=True)

    assert flavors_in(folder) == {"before"}
