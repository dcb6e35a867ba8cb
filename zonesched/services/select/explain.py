"""Reasons of refused hosts, for callers that may not see the hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.build_plan import FunnelStep, Refusal, Why
from zonesched.zones.answers import MAX_CODE, MAX_COUNT, MAX_NAME, MAX_WHY

_Key = tuple[str, str]
"""Filter and code."""

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.]")
_NOT_IN_CODE = re.compile(r"[^a-z0-9_]")


def explain(why: Iterable[Why], how_much: str) -> Sequence[Mapping[str, Any]]:
    """Sum up the refusals in a zone and its child zones, in order of filter and code.

    `how_much`: none, reasons (filter and code of each refusal), or counts (also the counts before and after,
    where known). Names, codes, lines and counts stay within the limits that a parent accepts, the zone's own
    lines first, so that neither a plugin nor invented reasons of a child make this zone's answer invalid.
    """
    if how_much == "none":
        return []
    steps = [step for step in why if how_much == "counts" or _refuses(step)]
    listed = list(dict.fromkeys(map(_key, steps)))[:MAX_WHY]
    if how_much == "reasons":
        return [_line(key) for key in sorted(listed)]
    sums: dict[_Key, tuple[int, int]] = {}
    for step in steps:
        if isinstance(step, FunnelStep):
            before, after = sums.get(_key(step), (0, 0))
            sums[_key(step)] = min(MAX_COUNT, before + step.before), min(MAX_COUNT, after + step.after)
    # If only a zone that reports no counts refused hosts, counts of the other zones would hide it.
    hidden = {_key(s) for s in steps if isinstance(s, Refusal) and not _differ(sums.get(_key(s), (0, 0)))}
    counted = sorted(key for key in listed if key in sums and key not in hidden)
    return [
        *(_line(key, before=sums[key][0], after=sums[key][1]) for key in counted),
        *(_line(key) for key in sorted(set(listed).difference(counted))),
    ]


def _differ(counts: tuple[int, int]) -> bool:
    return counts[1] < counts[0]


def _key(step: Why) -> _Key:
    name = _NOT_IN_NAME.sub("_", step.filter)[:MAX_NAME]
    code = _NOT_IN_CODE.sub("_", step.code.lower())[:MAX_CODE]
    return name or BaseHostFilter.__name__, code or BaseHostFilter.code


def _refuses(step: Why) -> bool:
    return isinstance(step, Refusal) or step.after < step.before


def _line(key: _Key, **counts: int) -> dict[str, Any]:
    name, code = key
    return {"filter": name, "code": code, **counts}
