"""The query language of JSONFilter: a JSON list whose first element is an operator.

    ["and", [">=", "$free_ram_mb", 1024], ["in", "$capabilities.gpu", "a100", "h100"]]

`=  <  >  <=  >=` compare their first operand with each of the others, `in` looks for it among them; `and`,
`or` and `not` take conditions (`not` of several: one of them is false). A text that starts with `$` is a
variable: one of RESOURCE_NUMBERS, or a path into the host's capabilities, with or without `capabilities.`
before it. A comparison with something the host does not have, or of different kinds (number, text, truth),
does not hold.

>>> parse_query('[">", "$free_ram_mb", ["="]]')
Traceback (most recent call last):
...
zonesched.errors.BadRequest: filter_query: an operand of '>' must be a number, a text, true or false
"""

from __future__ import annotations

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from zonesched.errors import BadRequest
from zonesched.filters.json_operand import Capability, Constant, Number, Operand
from zonesched.model.arrays import Bools
from zonesched.model.host_state import RESOURCE_NUMBERS, HostState
from zonesched.model.host_view import HostView

MAX_LENGTH = 16_384
MAX_DEPTH = 32
MAX_EXACT = 2**53

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
MEMBERSHIP = "in"
JUNCTIONS = ("and", "or", "not")


class Query(ABC):
    """A condition on one host."""

    @abstractmethod
    def holds(self, state: HostState) -> bool:
        """Of one host."""

    @abstractmethod
    def hold(self, hosts: HostView) -> Bools:
        """Of each host of the view."""


@dataclass(frozen=True)
class Comparison(Query):
    """The first operand compared with each of the others; with `any_other`, one success is enough."""

    compare: Callable[[Any, Any], Any]
    first: Operand
    others: tuple[Operand, ...]
    any_other: bool = False

    def holds(self, state: HostState) -> bool:
        results = (self.first.compared(self.compare, other, state) for other in self.others)
        return any(results) if self.any_other else all(results)

    def hold(self, hosts: HostView) -> Bools:
        results = [self.first.compared_all(self.compare, other, hosts) for other in self.others]
        return reduce(np.logical_or if self.any_other else np.logical_and, results)


@dataclass(frozen=True)
class Junction(Query):
    """`and`, `or` or `not` of conditions."""

    word: str
    parts: tuple[Query, ...]

    def holds(self, state: HostState) -> bool:
        results = (part.holds(state) for part in self.parts)
        match self.word:
            case "and":
                return all(results)
            case "or":
                return any(results)
            case _:
                return not all(results)

    def hold(self, hosts: HostView) -> Bools:
        results = [part.hold(hosts) for part in self.parts]
        match self.word:
            case "and":
                return reduce(np.logical_and, results)
            case "or":
                return reduce(np.logical_or, results)
            case _:
                return ~reduce(np.logical_and, results)


def parse_query(text: str) -> Query:
    """The query that `text` (JSON) says.

    Raises BadRequest (filter_query_invalid, field filter_query) for anything that is not in the grammar,
    longer than 16,384 characters or deeper than 32 lists.
    """
    if len(text) > MAX_LENGTH:
        raise _invalid(f"it is longer than {MAX_LENGTH} characters")
    try:
        return _condition(json.loads(text, parse_constant=_refuse_constant), MAX_DEPTH)
    except (ValueError, RecursionError) as error:
        raise _invalid("it is not JSON") from error


def _condition(value: object, depth: int) -> Query:
    if not isinstance(value, list) or not value:
        raise _invalid("a condition must be a list that starts with an operator")
    if depth == 0:
        raise _invalid(f"it is deeper than {MAX_DEPTH} lists")
    word, operands = value[0], value[1:]
    if not isinstance(word, str) or word not in (*COMPARISONS, MEMBERSHIP, *JUNCTIONS):
        known = " ".join((*COMPARISONS, MEMBERSHIP, *JUNCTIONS))
        raise _invalid(f"a condition must start with one of {known}")
    if word in JUNCTIONS:
        if not operands:
            raise _invalid(f"{word!r} needs at least one condition")
        return Junction(word, tuple(_condition(operand, depth - 1) for operand in operands))
    return _comparison(word, operands)


def _comparison(word: str, values: Sequence[object]) -> Comparison:
    if len(values) < 2:
        raise _invalid(f"{word!r} needs at least two operands")
    first, *others = (_operand(word, value) for value in values)
    if word == MEMBERSHIP:
        return Comparison(operator.eq, first, tuple(others), any_other=True)
    return Comparison(COMPARISONS[word], first, tuple(others))


def _operand(word: str, value: object) -> Operand:
    match value:
        case bool():
            return Constant(value)
        case int() | float():
            if abs(value) > MAX_EXACT:
                raise _invalid(f"a number of {word!r} is beyond 2**53")
            return Constant(value)
        case str() if value.startswith("$"):
            return _variable(value[1:])
        case str():
            return Constant(value)
        case _:
            raise _invalid(f"an operand of {word!r} must be a number, a text, true or false")


def _variable(path: str) -> Operand:
    if path in RESOURCE_NUMBERS:
        return Number(path)
    keys = path.split(".")
    if keys[0] == "capabilities" and len(keys) > 1:
        keys = keys[1:]
    if not all(keys):
        raise _invalid("a variable has an empty part in its name")
    return Capability(tuple(keys))


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _invalid(why: str) -> BadRequest:
    return BadRequest(f"filter_query: {why}", code="filter_query_invalid", field="filter_query")
