"""A page for each built-in filter, weigher and scheduler driver, made from its docstring.

docs/conf.py writes them to the folder `reference` before each build. Nothing of it is kept.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import option_tables

from zonesched import conf
from zonesched.filters.contract import BaseHostFilter
from zonesched.filters.registry import BUILT_IN as FILTERS
from zonesched.filters.registry import OLDER_NAMES
from zonesched.scheduler.host_costs import BUILT_IN as COSTS
from zonesched.scheduler.schedulers import DRIVERS
from zonesched.weights.contract import BaseHostWeigher
from zonesched.weights.registry import BUILT_IN as WEIGHERS

FOLDER = "reference"

FILTER_PARTS = ("Reads", "Example")
WEIGHER_PARTS = ("Raw value", "Multiplier", "Example")
DRIVER_PARTS = ("When to use", "Reads", "Example")
"""What a docstring must say, each after its name and a colon."""

INDEX = """# What is built in

A page for each filter, weigher and scheduler driver. How to write your own is in [plugins](../plugins.md).

## Filters

The code is the reason that is told of the hosts that a filter removed. Some filters are applied to requests
that need them even where they are not enabled: their pages say so. Whatever filters there are, a host without
room for the request is not offered (`no_free_slots`).

{filters}

Where several aggregates of a host set a number, the smallest counts. Where one of them sets what is no
number, the option's value counts, with a warning once.

## Weighers

All are on by default, `weight_classes = all_weighers`. What a weigher has nothing to say of costs nothing: no
group, no metrics set, a multiplier of 0 for all hosts, or the same number for all of them.

{weighers}

## Scheduler drivers

{drivers}

## Cost functions

They are what LeastCostScheduler adds up, named in `least_cost_functions`.

{costs}

```{{toctree}}
:hidden:
:glob:

filters/*
weighers/*
drivers/*
```
"""

_LABEL = re.compile(rf"\b({'|'.join({*FILTER_PARTS, *WEIGHER_PARTS, *DRIVER_PARTS})}):")
_CODE = re.compile(r"(`[^`]+`)")
_NAME = re.compile(r"\b[A-Za-z]\w+\b")
_DEFAULTS = conf.load([], {})
_OPTIONS = {option.name: option for option in conf.ALL}
_FOLDERS: Mapping[str, str] = {
    **dict.fromkeys(FILTERS, "filters"),
    **dict.fromkeys(WEIGHERS, "weighers"),
    **dict.fromkeys(DRIVERS, "drivers"),
}

PATHS = frozenset({"index.md", *(f"{folder}/{name}.md" for name, folder in _FOLDERS.items())})
"""Of all pages, below the folder."""


def pages() -> Mapping[str, str]:
    """The text of each page by its path below the folder.

    Raises ValueError that names a plugin whose docstring lacks a part.
    """
    made = {f"filters/{name}.md": filter_page(name, cls) for name, cls in FILTERS.items()}
    made |= {f"weighers/{name}.md": weigher_page(name, cls) for name, cls in WEIGHERS.items()}
    made |= {f"drivers/{name}.md": driver_page(name, cls) for name, cls in DRIVERS.items()}
    return {"index.md": _index(), **made}


def write(folder: Path) -> None:
    """Bring a folder to what `pages` says; a file that is right already is not touched."""
    wanted = {folder / path: text for path, text in pages().items()}
    for stale in set(folder.rglob("*.md")) - wanted.keys():
        stale.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def filter_page(name: str, cls: type[BaseHostFilter]) -> str:
    """What a filter passes, reads and is called, and how often it is asked."""
    facts = [
        f"Code of the hosts that it removes: `{cls.code}`",
        f"Enabled by default: {_yes(name in _DEFAULTS.enabled_filters)}",
        f"Asked {_asked(cls)}",
    ]
    older = [f"`{old}`" for old, new in OLDER_NAMES.items() if new == name]
    if older:
        facts.append(f"Older name: {', '.join(older)}")
    return _page(name, cls, FILTER_PARTS, facts)


def weigher_page(name: str, cls: type[BaseHostWeigher]) -> str:
    """What a weigher's raw value is, and how it is scaled and multiplied."""
    key = cls.multiplier_key
    facts = [
        f"Multiplier: option `{key}`, by default {_multiplier(cls)}",
        f"Metadata of aggregates that takes its place for their hosts: `{key}`; of several the smallest",
        f"Scale: {_scale(cls)}",
    ]
    return _page(name, cls, WEIGHER_PARTS, facts)


def driver_page(name: str, cls: type) -> str:
    """What a scheduler driver weighs by, and when to use it."""
    facts = [f"`scheduler_driver = {name}`" + (" (the default)" * (name == _DEFAULTS.scheduler_driver))]
    return _page(name, cls, DRIVER_PARTS, facts)


def first_line(cls: type) -> str:
    """The first line of the class's own docstring; "" without one."""
    return _doc(cls).partition("\n")[0]


def options_named(cls: type) -> list[str]:
    """The options that the class's own docstring names in backticks, in their order."""
    named = (word for code in _CODE.findall(_doc(cls)) for word in _NAME.findall(code))
    return list(dict.fromkeys(word for word in named if word in _OPTIONS))


def _page(name: str, cls: type, parts: Iterable[str], facts: Iterable[str]) -> str:
    missing = [part for part in parts if f"{part}: " not in _doc(cls)]
    if missing or not first_line(cls):
        raise ValueError(f"The docstring of {name} lacks a part: {', '.join(missing) or 'its first line'}")
    path = cls.__module__.replace(".", "/") + ".py"
    lines = [f"# {name}", *map(_marked_up(name), _doc(cls).split("\n\n"))]
    lines.append("\n".join(f"- {fact}" for fact in (*facts, f"Source: `{path}`")))
    options = [_OPTIONS[option] for option in options_named(cls)]
    if options:
        lines += ["## Options", option_tables.table(options)]
    return "\n\n".join(line.strip("\n") for line in lines) + "\n"


def _marked_up(name: str) -> Callable[[str], str]:
    """The docstring's text with its parts' names in bold, and other plugins' names as links."""

    def link(found: re.Match[str]) -> str:
        other = found[0]
        is_other = other in _FOLDERS and other != name
        return f"[{other}](../{_FOLDERS[other]}/{other}.md)" if is_other else other

    def mark_up(paragraph: str) -> str:
        pieces = _CODE.split(_LABEL.sub(r"**\1:**", paragraph))
        return "".join(piece if piece.startswith("`") else _NAME.sub(link, piece) for piece in pieces)

    return mark_up


def _asked(cls: type[BaseHostFilter]) -> str:
    rebuild = "; on a rebuild, about the server's own host alone" if cls.RUN_ON_REBUILD else ""
    return _asked_at_boot(cls) + rebuild


def _asked_at_boot(cls: type[BaseHostFilter]) -> str:
    if cls.shared_facts_only:
        return "once for all hosts with the same availability zone, capabilities, traits and aggregates"
    if cls.run_filter_once_per_request or cls.implied_by_free_slots:
        return "once for a request: what its own instances take changes no answer"
    if cls.changes_with_picks is not BaseHostFilter.changes_with_picks:
        return "again about a host that was picked, where the request makes that matter"
    return "again about each host that was picked"


def _scale(cls: type[BaseHostWeigher]) -> str:
    low = "the lowest raw value" if cls.minval is None else f"{cls.minval:g}"
    high = "the highest raw value" if cls.maxval is None else f"{cls.maxval:g}"
    return f"{low} scores 0, {high} scores 1"


def _index() -> str:
    filters = sorted(FILTERS.items())
    return INDEX.format(
        filters=_table(
            ("filter", "", "code", "enabled by default"),
            (
                (_link(n), first_line(c), f"`{c.code}`", _yes(n in _DEFAULTS.enabled_filters))
                for n, c in filters
            ),
        ),
        weighers=_table(
            ("weigher", "", "option of its multiplier, and metadata key", "default"),
            ((_link(n), first_line(c), f"`{c.multiplier_key}`", _multiplier(c)) for n, c in WEIGHERS.items()),
        ),
        drivers=_table(
            ("driver", "", "when to use it"),
            ((_link(n), first_line(c), _use(c)) for n, c in DRIVERS.items()),
        ),
        costs=_table(
            ("cost function", "costs"),
            ((f"`{n}`", first_line(c)) for n, c in COSTS.items()),
        ),
    )


def _table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _multiplier(cls: type[BaseHostWeigher]) -> str:
    return f"`{_OPTIONS[cls.multiplier_key].default}`"


def _use(cls: type) -> str:
    paragraphs = _doc(cls).split("\n\n")
    label = f"{DRIVER_PARTS[0]}: "
    return next(p.removeprefix(label).replace("\n", " ") for p in paragraphs if p.startswith(label))


def _link(name: str) -> str:
    return f"[{name}]({_FOLDERS[name]}/{name}.md)"


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


def _doc(cls: type) -> str:
    return inspect.cleandoc(vars(cls).get("__doc__") or "")


if __name__ == "__main__":
    write(Path(__file__).parent / FOLDER)
