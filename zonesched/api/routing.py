"""The rules of the URL table: which routes answer a method and a path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from werkzeug.routing import Map, Rule

from zonesched.api.route import Route
from zonesched.api.urls import URLS


class MatchingRule(Rule):
    """Rule of a URL that is only matched: no URL is ever built from it.

    werkzeug compiles two functions for each rule to build URLs, which takes ten times as long as the rest.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        return _refuse_to_build


def _refuse_to_build(*_: object, **__: object) -> tuple[str, str]:
    raise AssertionError("no URL is built from a rule")


@cache
def routes_by_rule() -> Mapping[str, Sequence[Route]]:
    """Return the routes of each rule, one per set of roles, by the rule's endpoint: "GET /servers"."""
    found: defaultdict[str, list[Route]] = defaultdict(list)
    for route in URLS:
        for mount in route.mounts:
            found[f"{route.method} {mount}{route.path}"].append(route)
    return found


def url_rules() -> list[Rule]:
    """Return new rules of every URL of the table, which a map can be made of."""
    return [_rule(*endpoint.split(" ", 1)) for endpoint in routes_by_rule()]


@cache
def url_map() -> Map:
    """Return the map of all rules."""
    # One for all zones of a process: to compile the rules takes longer than all else that an app is made of.
    return Map(url_rules(), strict_slashes=False, merge_slashes=False)


def _rule(method: str, path: str) -> Rule:
    pattern = path.replace("{", "<").replace("}", ">")
    return MatchingRule(pattern, methods=[method], endpoint=f"{method} {path}")
