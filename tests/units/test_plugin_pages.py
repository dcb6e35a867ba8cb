"""The pages of built-in filters, weighers and drivers: each has one, and it says all that the code does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import plugin_pages
import pytest

from zonesched import conf
from zonesched.filters.contract import BaseHostFilter
from zonesched.filters.ram_filter import RamFilter
from zonesched.filters.registry import BUILT_IN as FILTERS
from zonesched.filters.registry import OLDER_NAMES
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.scheduler.host_costs import BUILT_IN as COSTS
from zonesched.scheduler.schedulers import DRIVERS
from zonesched.weights.contract import BaseHostWeigher
from zonesched.weights.registry import BUILT_IN as WEIGHERS

DOCS = Path(plugin_pages.__file__).parent
OPTIONS = {option.name: option for option in conf.ALL}
READ_BY_CONF = {**FILTERS, **WEIGHERS}
ALL = {**READ_BY_CONF, **DRIVERS}


class NotedConf:
    """The default options, and which of them were read."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self._conf = conf.load([], {})

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self._conf[name]

    def __getattr__(self, name: str) -> Any:
        return self[name]


@pytest.fixture(scope="module")
def pages() -> Mapping[str, str]:
    made: Mapping[str, str] = plugin_pages.pages()
    return made


# -- every plugin has a page ---------------------------------------------------------------------------------


def test_there_is_a_page_for_each_built_in_plugin_and_no_other(pages: Mapping[str, str]) -> None:
    assert pages.keys() == plugin_pages.PATHS
    assert pages.keys() == {
        "index.md",
        *(f"filters/{name}.md" for name in FILTERS),
        *(f"weighers/{name}.md" for name in WEIGHERS),
        *(f"drivers/{name}.md" for name in DRIVERS),
    }


@pytest.mark.parametrize("name", FILTERS)
def test_the_page_of_a_filter_says_what_it_passes_and_reads(name: str) -> None:
    page = plugin_pages.filter_page(name, FILTERS[name])
    assert page.startswith(f"# {name}\n\nPasses ")
    assert f"`{FILTERS[name].code}`" in page
    assert all(f"**{part}:** " in page for part in ("Reads", "Example"))


@pytest.mark.parametrize("name", WEIGHERS)
def test_the_page_of_a_weigher_says_its_raw_value_and_multiplier(name: str) -> None:
    page = plugin_pages.weigher_page(name, WEIGHERS[name])
    assert page.startswith(f"# {name}\n\n")
    assert all(f"**{part}:** " in page for part in ("Raw value", "Multiplier", "Example"))
    assert f"| `{WEIGHERS[name].multiplier_key}` |" in page.partition("## Options")[2]


@pytest.mark.parametrize("name", DRIVERS)
def test_the_page_of_a_driver_says_when_to_use_it(name: str) -> None:
    page = plugin_pages.driver_page(name, DRIVERS[name])
    assert f"`scheduler_driver = {name}`" in page
    assert all(f"**{part}:** " in page for part in ("When to use", "Reads", "Example"))


def test_older_names_are_on_the_page(pages: Mapping[str, str]) -> None:
    for older, name in OLDER_NAMES.items():
        assert f"`{older}`" in pages[f"filters/{name}.md"]


# -- nothing is left out -------------------------------------------------------------------------------------


class NoReads(BaseHostFilter):
    """Passes hosts of the moon.

    Example: Apollo.
    """


class NoExample(BaseHostWeigher):
    """Prefers hosts of the moon.

    Raw value: craters. Multiplier: option `ram_weight_multiplier`.
    """

    multiplier_key = "ram_weight_multiplier"


class NoUse(BaseScheduler):
    """Weighs craters.

    Reads: nothing.

    Example: Apollo.
    """


class OnlyInherited(RamFilter):
    pass


@pytest.mark.parametrize(
    ("make", "cls", "missing"),
    [
        (plugin_pages.filter_page, NoReads, "Reads"),
        (plugin_pages.weigher_page, NoExample, "Example"),
        (plugin_pages.driver_page, NoUse, "When to use"),
        (plugin_pages.filter_page, OnlyInherited, "Reads, Example"),
    ],
)
def test_a_docstring_without_one_of_the_parts_makes_no_page(make: Any, cls: type, missing: str) -> None:
    with pytest.raises(ValueError, match=f"^The docstring of {cls.__name__} lacks a part: {missing}$"):
        make(cls.__name__, cls)


@pytest.mark.parametrize("name", READ_BY_CONF)
def test_every_option_that_a_plugin_reads_is_named(name: str) -> None:
    noted = NotedConf()
    READ_BY_CONF[name].from_conf(noted)  # type: ignore[attr-defined]
    assert noted.read <= set(plugin_pages.options_named(READ_BY_CONF[name]))


@pytest.mark.parametrize("name", ALL)
def test_a_default_that_a_docstring_tells_is_the_options(name: str) -> None:
    for option, told in re.findall(r"`(\w+)`\s+\((-?\d[\d.]*|true|false)\b", ALL[name].__doc__ or ""):
        if option in OPTIONS:
            assert told == str(OPTIONS[option].default).lower()


# -- the tables and the links --------------------------------------------------------------------------------


def test_the_tables_list_every_plugin_with_its_first_line(pages: Mapping[str, str]) -> None:
    index = pages["index.md"]
    for name, cls in ALL.items():
        assert re.search(rf"^\| \[{name}\]\(\w+/{name}\.md\) \| {re.escape(first_line(cls))} \|", index, re.M)
    for name, cost in COSTS.items():
        assert f"| `{name}` | {first_line(cost)} |" in index


def test_the_tables_tell_codes_and_what_is_on_by_default(pages: Mapping[str, str]) -> None:
    enabled = conf.load([], {}).enabled_filters
    for name, cls in FILTERS.items():
        line = next(line for line in pages["index.md"].splitlines() if line.startswith(f"| [{name}]"))
        assert line.endswith(f"| `{cls.code}` | {'yes' if name in enabled else 'no'} |")
    assert "| `build_failure_weight_multiplier` | `1000000.0` |" in pages["index.md"]


def test_links_of_the_pages_lead_somewhere(pages: Mapping[str, str]) -> None:
    folder = (DOCS / plugin_pages.FOLDER).resolve()
    for path, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            found = (folder / path).parent.joinpath(target).resolve()
            is_page = found.is_relative_to(folder) and str(found.relative_to(folder)) in pages
            assert is_page or found.exists(), f"{path}: {target}"


def first_line(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0]


# -- writing them --------------------------------------------------------------------------------------------


def test_what_is_written_is_what_was_made_and_nothing_older(tmp_path: Path, pages: Mapping[str, str]) -> None:
    (tmp_path / "filters").mkdir()
    (tmp_path / "filters" / "GoneFilter.md").write_text("# GoneFilter\n")
    plugin_pages.write(tmp_path)
    assert {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.md")} == pages


def test_a_page_that_is_right_is_not_written_again(tmp_path: Path) -> None:
    plugin_pages.write(tmp_path)
    page = tmp_path / "filters" / "RamFilter.md"
    page.chmod(0o444)
    before = page.stat().st_mtime_ns
    plugin_pages.write(tmp_path)
    assert page.stat().st_mtime_ns == before
