"""Templates to HTML: everything is escaped, and what is missing is an error."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

ASSETS = {
    "style.css": "text/css",
    "live.js": "text/javascript",
    "once.js": "text/javascript",
    "heat.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""Files that pages load, with their media types."""

BLANK = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and symbols that show nothing."""

MOST_SHOWN = 8
"""Characters of a name that shows nothing whose codes are shown."""


@cache
def asset(name: str) -> bytes:
    """Return the content of an asset."""
    return (files("zonesched.dashboard") / "assets" / name).read_bytes()


@cache
def _asset_url(name: str) -> str:
    """Return its URL, which changes with the content: browsers keep it for long."""
    return f"/dashboard/assets/{name}?v={hashlib.sha256(asset(name)).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("zonesched.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"clock": clock, "number": number, "part": part, "amount": amount, "named": named}
    made.globals |= {"asset_url": _asset_url, "with_query": with_query}
    return made


def html(template: str, values: Mapping[str, Any]) -> str:
    """Return the page."""
    return _environment().get_template(template).render(values)


def clock(iso: str | None) -> str:
    """2011-07-27T13:05:00Z or 2011-07-27T13:05:00.123 as 2011-07-27 13:05:00."""
    return iso[:19].replace("T", " ") if iso else ""


def number(value: float) -> str:
    """Whole numbers in groups of three, others with few digits."""
    return f"{value:,.0f}".replace(",", "\u202f") if float(value).is_integer() else f"{value:.3g}"


def named(value: object) -> str:
    """A text that somebody chose: what stands beside it keeps its place, whichever way the text is written.

    A text that shows nothing is shown as the codes of its characters.
    """
    text = str(value)
    if text.isascii():
        return text
    if not any(map(_is_visible, text)):
        rest = ["…"] if len(text) > MOST_SHOWN else []
        text = " ".join([*(f"U+{ord(character):04X}" for character in text[:MOST_SHOWN]), *rest])
    return Markup("<bdi>{}</bdi>").format(text)


def _is_visible(character: str) -> bool:
    return character not in BLANK and unicodedata.category(character)[0] in "LNPS"


def part(value: str) -> str:
    """A part of a path."""
    return quote(value, safe="")


def amount(value: float, of: str) -> str:
    """An amount of a resource class in the unit that people read."""
    match of:
        case "MEMORY_MB" if value % 1024 and value < 10 * 1024:
            return f"{number(round(value))} MiB"
        case "MEMORY_MB":
            return f"{number(round(value / 1024))} GiB"
        case "DISK_GB":
            return f"{number(round(value))} GB"
        case _:
            return number(value)


def with_query(path: str, query: Mapping[str, str], **changed: str) -> str:
    """A path with a query, of which some parameters are changed, or left out where they are empty."""
    merged = {name: value for name, value in {**query, **changed}.items() if value}
    return f"{path}?{urlencode(merged)}" if merged else path
