"""The query language of JSONFilter: a JSON list whose first element is an operator.

    ["and", [">=", "$free_ram_mb", 1024], ["in", "$capabilities.gpu", "a100", "h100"]]

`=  <  >  <=  >=` compare their first operand with each of the others, `in` looks for it among them; `and`,
`or` and `not` take conditions (`not` of several: one of them is false). `true`, `false` and a list without
elements, which every host meets, are conditions, too. A text that starts with `$` is a
variable: a number of the host (`$free_ram_mb`), or a path into its capabilities. A comparison with a value
that the host does not have, or of different kinds (number, text, truth), does not hold.

Variables that identify the host and counts of all projects' instances are refused. So are `<  >  <=  >=` of
texts, with which a caller could read a text of a capability letter by letter.

The cost of a query is bounded when it is read: at most MAX_OPERANDS operands are looked at per host.

>>> parse_query('[">", "$free_ram_mb", ["="]]')
Traceback (most recent call last):
...
zonesched.errors.BadRequest: filter_query: an operand of '>' must be a number, a text, true or false
"""

from __future__ import annotations

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from zonesched.errors import BadRequest
from zonesched.filters.json_operand import (
    COUNT_COLUMNS,
    RESOURCE_COLUMNS,
    Capability,
    Constant,
    Number,
    OfFacts,
    Operand,
    as_number,
    kind_of,
)
from zonesched.model.arrays import Bools
from zonesched.model.host_row import SharedFacts
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.json_shape import nests_deeper

MAX_LENGTH = 16_384
MAX_DEPTH = 32
MAX_OPERANDS = 256
MAX_EXACT = 2**53

Compare = Callable[[Any, Any], Any]

ORDERS: Mapping[str, Compare] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
COMPARISONS: Mapping[str, Compare] = {"=": operator.eq, **ORDERS}
MEMBERSHIP = "in"
JUNCTIONS = ("and", "or", "not")

CAPABILITIES = "capabilities"
HYPERVISOR_FACTS = ("cpu_info", "hypervisor_type", "hypervisor_version", "supported_instances")
"""Capabilities that are also read without `capabilities.`: in OpenStack Compute they are a host's own."""

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
"""Variables that tell which host it is: refused in each spelling."""


class Query(ABC):
    """A condition on one host."""

    @abstractmethod
    def holds(self, state: HostState) -> bool:
        """Tell whether the condition holds for one host."""

    @abstractmethod
    def hold(self, hosts: HostView) -> Bools:
        """Tell for each host of the view whether the condition holds. Raises OutOfTime."""

    @property
    @abstractmethod
    def reads_numbers(self) -> bool:
        """Tell whether instances that are placed on a host can change the answer."""


@dataclass(frozen=True)
class Comparison(Query):
    """The first operand compared with each of the others; with `any_other`, one success is enough."""

    compare: Compare
    first: Operand
    others: tuple[Operand, ...]
    any_other: bool = False

    @property
    def reads_numbers(self) -> bool:
        return any(isinstance(operand, Number) for operand in (self.first, *self.others))

    def holds(self, state: HostState) -> bool:
        first = self.first.value(state)
        return self._combine(
            self._holds_of_numbers(first, other.value(state))
            if isinstance(self.first, Number) or isinstance(other, Number)
            else self._holds_of(first, other.value(state))
            for other in self.others
        )

    def hold(self, hosts: HostView) -> Bools:
        """Ask about capabilities once per distinct facts; compare numbers as columns."""
        results: list[Bools] = []
        numbers = self.others
        if isinstance(self.first, OfFacts):
            of_facts = tuple(other for other in self.others if isinstance(other, OfFacts))
            numbers = tuple(other for other in self.others if not isinstance(other, OfFacts))
            if of_facts:
                results.append(hosts.by_shared_facts(self._question(self.first, of_facts)))
        if numbers:
            left = self.first.column(hosts)
            columns = (other.column(hosts) for other in hosts.deadline.watch(numbers))
            results += [self.compare(left, column) for column in columns]
        return reduce(np.logical_or if self.any_other else np.logical_and, results)

    def _question(self, first: OfFacts, others: Sequence[OfFacts]) -> Callable[[SharedFacts], bool]:
        constants = [other.constant for other in others if isinstance(other, Constant)]
        if self.any_other and len(constants) == len(others):
            wanted = frozenset((kind_of(constant), constant) for constant in constants)
            return lambda facts: _is_among(first.of_facts(facts), wanted)

        def holds(facts: SharedFacts) -> bool:
            value = first.of_facts(facts)
            return self._combine(self._holds_of(value, other.of_facts(facts)) for other in others)

        return holds

    def _combine(self, results: Iterable[bool]) -> bool:
        return any(results) if self.any_other else all(results)

    def _holds_of(self, left: object, right: object) -> bool:
        kind = kind_of(left)
        if kind == "" or kind != kind_of(right) or (kind == "text" and self.compare is not operator.eq):
            return False
        return bool(self.compare(left, right))

    def _holds_of_numbers(self, left: object, right: object) -> bool:
        # As the columns have it, which are of float64: NaN, for what is not a number, meets no comparison.
        return bool(self.compare(as_number(left), as_number(right)))


def _is_among(value: object, wanted: frozenset[tuple[str, object]]) -> bool:
    kind = kind_of(value)
    return kind != "" and (kind, value) in wanted


@dataclass(frozen=True)
class Truth(Query):
    """A condition that is the same for every host."""

    is_met: bool

    @property
    def reads_numbers(self) -> bool:
        return False

    def holds(self, state: HostState) -> bool:
        return self.is_met

    def hold(self, hosts: HostView) -> Bools:
        return hosts.everyone if self.is_met else ~hosts.everyone


@dataclass(frozen=True)
class Junction(Query):
    """`and`, `or` or `not` of conditions."""

    word: str
    parts: tuple[Query, ...]

    @property
    def reads_numbers(self) -> bool:
        return any(part.reads_numbers for part in self.parts)

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
        results = [part.hold(hosts) for part in hosts.deadline.watch(self.parts)]
        match self.word:
            case "and":
                return reduce(np.logical_and, results)
            case "or":
                return reduce(np.logical_or, results)
            case _:
                return ~reduce(np.logical_and, results)


def parse_query(text: str) -> Query:
    """Return the query that is written in `text` (JSON).

    Raise BadRequest (filter_query_invalid, field filter_query) for a text that is not in the grammar, is
    longer than 16,384 characters, deeper than 32 lists, or has more than 256 operands.
    """
    if len(text) > MAX_LENGTH:
        raise _invalid(f"it is longer than {MAX_LENGTH} characters")
    if nests_deeper(text, MAX_DEPTH + 1):
        raise _invalid(f"it is deeper than {MAX_DEPTH} lists")
    try:
        query = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise _invalid("it is not JSON") from error
    return _Reader().condition(query, MAX_DEPTH)


class _Reader:
    """Reads one query, and counts its operands."""

    def __init__(self) -> None:
        self._operands = 0

    def condition(self, value: object, depth: int) -> Query:
        if isinstance(value, bool) or value == []:
            self._count(1)
            return Truth(value is not False)
        if not isinstance(value, list):
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
            return Junction(word, tuple(self.condition(operand, depth - 1) for operand in operands))
        return self._comparison(word, operands)

    def _comparison(self, word: str, values: Sequence[object]) -> Comparison:
        if len(values) < 2:
            raise _invalid(f"{word!r} needs at least two operands")
        self._count(len(values))
        first, *others = (_operand(word, value) for value in values)
        if word == MEMBERSHIP:
            return Comparison(operator.eq, first, tuple(others), any_other=True)
        return Comparison(COMPARISONS[word], first, tuple(others))

    def _count(self, operands: int) -> None:
        self._operands += operands
        if self._operands > MAX_OPERANDS:
            raise _invalid(f"it has more than {MAX_OPERANDS} operands")


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
            if word in ORDERS:
                raise _invalid(f"{word!r} compares numbers only; texts are compared with = and in")
            return Constant(value)
        case _:
            raise _invalid(f"an operand of {word!r} must be a number, a text, true or false")


def _variable(path: str) -> Operand:
    if path in RESOURCE_COLUMNS:
        return Number(path)
    if path in COUNT_COLUMNS:
        raise _invalid("counts of everybody's instances are never read")
    scope, *inner = path.split(".")
    keys = inner if scope == CAPABILITIES else [scope, *inner]
    if not keys or not all(keys):
        raise _invalid("a variable has an empty part in its name")
    if keys[0] in IDENTIFYING:
        raise _invalid("names, addresses and ids of hosts are never read")
    if scope != CAPABILITIES and scope not in HYPERVISOR_FACTS:
        known = ", ".join(f"${name}" for name in (*RESOURCE_COLUMNS, *HYPERVISOR_FACTS))
        raise _invalid(f"a variable must be one of {known}, or start with $capabilities.")
    return Capability(tuple(keys))


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _invalid(why: str) -> BadRequest:
    return BadRequest(f"filter_query: {why}", code="filter_query_invalid", field="filter_query")
