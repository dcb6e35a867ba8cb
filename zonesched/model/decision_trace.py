"""The decision trace of a select, zone by zone.

A zone knows its local hosts in full, and only the report of each child. The funnel of the local hosts adds
up: the first step starts with all hosts, each later step with the hosts that the step before left, and the
last step ends with the offered hosts.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from zonesched.errors import ChildDatabaseAway
from zonesched.model.build_plan import FunnelStep, Refusal, Why


class ChildOutcome(enum.Enum):
    """Outcome of a child zone in one select.

    ANSWERED: it answered for its whole subtree. INCOMPLETE: it answered for a part of its subtree.
    INELIGIBLE: not asked, because none of its hosts could hold the request even if it were empty. NOT_READY:
    not asked, because it cannot answer now. UNREACHABLE: asked, without a usable answer in time.
    """

    ANSWERED = "answered"
    INCOMPLETE = "incomplete"
    INELIGIBLE = "ineligible"
    NOT_READY = "not_ready"
    UNREACHABLE = "unreachable"


class ScorePart(NamedTuple):
    """Part of one weigher (or cost function) in a host's score: `amount` was added to the score (or cost)."""

    weigher: str
    raw: float
    multiplier: float
    amount: float


class HostScore(NamedTuple):
    """A local host with its weight (lower is better) and the parts of its score, if the driver has any."""

    host_id: str
    host_name: str
    weight: int
    parts: tuple[ScorePart, ...]


@dataclass(frozen=True)
class HostAnswer:
    """Verdict of one filter on one host."""

    filter: str
    code: str
    passes: bool


@dataclass(frozen=True)
class HostJudgement:
    """Verdict of every filter on one local host, and its score; no score if it cannot be weighed."""

    host_id: str
    host_name: str
    answers: tuple[HostAnswer, ...]
    score: tuple[HostScore, ...]

    @property
    def passes(self) -> bool:
        """Tell whether the host passes every filter."""
        return all(answer.passes for answer in self.answers)


@dataclass(frozen=True)
class LocalTrace:
    """Trace of the local hosts. `offered`: the number of instances that fit on them.

    `steps`: from all hosts to those offered. `runs_out`: if fewer instances fit than were requested, the
    reasons why the offered hosts take no further one, most hosts first. `best`: the scores of the best hosts.
    """

    steps: tuple[Why, ...] = ()
    offered: int = 0
    runs_out: tuple[FunnelStep, ...] = ()
    best: tuple[HostScore, ...] = ()


@dataclass(frozen=True)
class ChildTrace:
    """Trace of one child zone. `code`: the reason why it was not asked or gave no usable answer.

    Of an INCOMPLETE one: the reason why a zone further down gave none, where that is known.
    """

    child_id: str
    name: str
    outcome: ChildOutcome
    code: str = ""
    offered: int = 0
    why: tuple[Why, ...] = ()
    runs_out: tuple[Why, ...] = ()


@dataclass(frozen=True)
class DecisionTrace:
    """Trace of this zone, then of its children in the order in which they were added."""

    own: LocalTrace = LocalTrace()
    children: tuple[ChildTrace, ...] = ()

    @property
    def lacks_a_database(self) -> bool:
        """Tell whether a zone gave no answer because its database is away."""
        return any(child.code == ChildDatabaseAway.code for child in self.children)

    @property
    def why(self) -> tuple[Why, ...]:
        """Refusals of hosts, local ones first, then those of child zones."""
        return tuple(chain(self.own.steps, *(child.why for child in self.children)))

    @property
    def runs_out(self) -> tuple[Why, ...]:
        """Resources that ran out on the offered hosts, local ones first, then those of child zones."""
        return tuple(chain(self.own.runs_out, *(child.runs_out for child in self.children)))

    def without_runs_out(self) -> DecisionTrace:
        """Return the trace of the refused hosts, without the resources that the offered hosts ran out of."""
        children = tuple(replace(child, runs_out=()) for child in self.children)
        return DecisionTrace(replace(self.own, runs_out=()), children)


NO_TRACE = DecisionTrace()
"""The trace of a request that no select of this zone has decided."""


def trace_to_wire(trace: DecisionTrace) -> dict[str, Any]:
    """Return the trace as the JSON object `why` of docs/wire.md, which the store also keeps."""
    own = trace.own
    return {
        "own": {
            "offered": own.offered,
            "steps": why_to_wire(own.steps),
            "runs_out": why_to_wire(own.runs_out),
            "best": [score_to_wire(score) for score in own.best],
        },
        "children": [
            {
                "id": child.child_id,
                "name": child.name,
                "outcome": child.outcome.value,
                "code": child.code,
                "offered": child.offered,
                "why": why_to_wire(child.why),
                "runs_out": why_to_wire(child.runs_out),
            }
            for child in trace.children
        ],
    }


def trace_from_wire(wire: Mapping[str, Any]) -> DecisionTrace:
    """Return the trace of an object that `trace_to_wire` returned."""
    own = wire["own"]
    return DecisionTrace(
        LocalTrace(
            steps=_why_from_wire(own["steps"]),
            offered=own["offered"],
            runs_out=tuple(FunnelStep(**line) for line in own["runs_out"]),
            best=tuple(_score_from_wire(score) for score in own["best"]),
        ),
        tuple(
            ChildTrace(
                child_id=child["id"],
                name=child["name"],
                outcome=ChildOutcome(child["outcome"]),
                code=child["code"],
                offered=child["offered"],
                why=_why_from_wire(child["why"]),
                runs_out=_why_from_wire(child["runs_out"]),
            )
            for child in wire["children"]
        ),
    )


def why_to_wire(steps: Sequence[Why]) -> list[dict[str, Any]]:
    """Return lines of {"filter", "code"}, with "before" and "after" where the counts are known."""
    return [dict(vars(step)) for step in steps]


def score_to_wire(score: HostScore) -> dict[str, Any]:
    """Return a host with its weight, and its score by weigher."""
    return {
        "id": score.host_id,
        "host": score.host_name,
        "weight": score.weight,
        "scores": [
            {"weigher": p.weigher, "raw": p.raw, "multiplier": p.multiplier, "score": p.amount}
            for p in score.parts
        ],
    }


def _why_from_wire(lines: Sequence[Mapping[str, Any]]) -> tuple[Why, ...]:
    return tuple(FunnelStep(**line) if "before" in line else Refusal(**line) for line in lines)


def _score_from_wire(wire: Mapping[str, Any]) -> HostScore:
    parts = (ScorePart(p["weigher"], p["raw"], p["multiplier"], p["score"]) for p in wire["scores"])
    return HostScore(wire["id"], wire["host"], wire["weight"], tuple(parts))
