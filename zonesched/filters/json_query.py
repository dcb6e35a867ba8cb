"""The query language of JSONFilter: a JSON list whose first element is an operator.

    ["and", [">=", "$free_ram_mb", 1024], ["in", "$capabilities.gpu", "a100", "h100"]]

`=  <  >  <=  >=` compare their first operand with each of the others, `in` looks for it among them; `and`,
`or` and `not` take conditions (`not` of several: one of them is false). A text that starts with `$` is a
variable: one of the host's numbers (`$free_ram_mb`), or a path into its capabilities
(`$capabilities.cpu_info.vendor`), without `capabilities.` only for the four of HYPERVISOR_FACTS. Every other
variable is refused: names, addresses and ids of hosts are never read. A comparison with something the host
does not have, or of different kinds (number, text, truth), does not hold.

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

CAPABILITIES = "capabilities"
HYPERVISOR_FACTS = ("cpu_info", "hypervisor_type", "hypervisor_version", "supported_instances")
"""Capabilities that OpenStack Compute has as attributes of a host."""

IDENTIFYING = frozenset(
    {
        "address",
        "host",
        "host_ip",
        "hostname",
        "hypervisor_hostname",
        "id",
        "name",
        "node",
        "nodename",
        "service_host",
        "service_id",
        "uuid",
    }
)
"""Variables that would tell which host it is, however they are spelled."""


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
    scope, *inner = path.split(".")
    keys = inner if scope == CAPABILITIES else [scope, *inner]
    if not keys or not all(keys):
        raise _invalid("a variable has an empty part in its name")
    if keys[0] in IDENTIFYING:
        raise _invalid("names, addresses and ids of hosts are never read")
    if scope != CAPABILITIES and scope not in HYPERVISOR_FACTS:
        known = ", ".join(f"${name}" for name in (*RESOURCE_NUMBERS, *HYPERVISOR_FACTS))
        raise _invalid(f"a variable must be one of {known}, or start with $capabilities.")
    return Capability(tuple(keys))


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _invalid(why: str) -> BadRequest:
    return BadRequest(f"filter_query: {why}", code="filter_query_invalid", field="filter_query")
