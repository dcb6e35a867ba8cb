"""The demand of an extra spec on a capability or a value of metadata: an operator and a text.

    >= 5        a number of at least 5          s== 2.1.0       this very text
    = 5         the same, as for vcpus          s!= s>= s> s<= s<    texts in order of their characters
    == 5  != 5  <= 5   as numbers               <in> gcc        the text has this in it
    a100        without an operator: as s==     <all-in> aes mmx    every one of these is among the values
                                                <or> fpu <or> gpu   the value is one of these

These are the operators of OpenStack Compute. A space between operator and text may be left out. A value that
is missing, or no number where one is needed, meets nothing, `!=` included. Of a list, `<in>` and `<or>` need
one element that meets them, `<all-in>` looks for whole elements, and nothing else holds. true and false are
matched in any case.

A request from a parent zone has requirements `of_parent`: they do not order texts, and `<in>` and `<all-in>`
look for whole words of a text. Else a parent could read a text letter by letter.

>>> parse_requirement("<or> fpu <or> gpu").met_by("gpu")
True
>>> parse_requirement(">= 5").met_by("12.5")
True
>>> parse_requirement("> 5")
Traceback (most recent call last):
...
ValueError: '> 5' starts with none of = == != >= <= s== s!= s>= s> s<= s< <in> <all-in> <or>
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from zonesched.decimal_text import decimal_number
from zonesched.model.json_shape import DEEPEST, nests_deeper

NUMBER_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
TEXT_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s>=": operator.ge,
    "s>": operator.gt,
    "s<=": operator.le,
    "s<": operator.lt,
}
ORDERING_OPERATORS = frozenset(TEXT_OPERATORS) - {"s==", "s!="}
"""Operators that meet nothing in a request from a parent."""

IN, ALL_IN, OR = "<in>", "<all-in>", "<or>"
OPERATORS = (*NUMBER_OPERATORS, *TEXT_OPERATORS, IN, ALL_IN, OR)

_LONGEST_FIRST = sorted(OPERATORS, key=len, reverse=True)
_BETWEEN_WORDS = re.compile(r"[^\w.+-]+")
_SPLIT = re.compile(rf"({'|'.join(map(re.escape, _LONGEST_FIRST))})\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Requirement:
    """An operator of OPERATORS and its operands: one text, or several for `<all-in>` and `<or>`."""

    operator: str
    wanted: tuple[str, ...]
    of_parent: bool = False

    def met_by(self, value: object) -> bool:
        """Return True if a value meets it: a text, number, truth, list of these, or None if missing."""
        if self.operator in NUMBER_OPERATORS:
            number = _number(value)
            return number is not None and NUMBER_OPERATORS[self.operator](number, float(self.wanted[0]))
        elements = value if isinstance(value, list) else [value]
        texts = [text for text in map(_text, elements) if text is not None]
        wanted = [word.lower() for word in self.wanted] if isinstance(value, bool) else self.wanted
        match self.operator:
            case "<in>":
                return any(wanted[0] == text or wanted[0] in self._parts(text) for text in texts)
            case "<or>":
                return any(text in wanted for text in texts)
            case "<all-in>":
                held = texts if isinstance(value, list) else self._parts("".join(texts))
                return all(word in held for word in wanted)
            case name if self.of_parent and name in ORDERING_OPERATORS:
                return False
            case name:
                is_list = isinstance(value, list)
                return not is_list and any(TEXT_OPERATORS[name](text, wanted[0]) for text in texts)

    def _parts(self, text: str) -> Container[str]:
        """Return the texts that `<in>` and `<all-in>` find in a text: any part of it, or whole words."""
        return _BETWEEN_WORDS.split(text) if self.of_parent else text


def parse_requirement(text: str, *, of_parent: bool = False) -> Requirement:
    """Read the text of an extra spec. Raise ValueError, which names the accepted forms."""
    text = text.strip()
    split = _SPLIT.match(text)
    if split is None:
        if text[:1] in ("<", ">", "!"):
            raise ValueError(f"{text!r} starts with none of {' '.join(OPERATORS)}")
        return Requirement("s==", (text,), of_parent)
    name, rest = split[1], split[2].strip()
    if name in (IN, OR):
        # OpenStack Compute takes a last operator without an operand, too.
        rest = rest.removesuffix(name).strip()
    match name:
        case "<or>":
            wanted = tuple(word.strip() for word in rest.split(OR))
        case "<all-in>":
            wanted = tuple(rest.split())
        case _:
            wanted = (rest,)
    if not wanted or not all(wanted):
        raise ValueError(f"{text!r} has nothing after {name}")
    if name in NUMBER_OPERATORS and _number(rest) is None:
        raise ValueError(f"{text!r} has no finite number after {name}")
    return Requirement(name, wanted, of_parent)


def follow(value: Any, keys: tuple[str, ...]) -> object:
    """Return the value at a path of keys in nested mappings or JSON texts of them; None if missing."""
    for key in keys:
        if isinstance(value, str):
            value = _mapping_of(value)
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _mapping_of(text: str) -> object:
    if nests_deeper(text, DEEPEST):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _number(value: object) -> float | None:
    if isinstance(value, str):
        # As texts are compared.
        return decimal_number(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _text(value: object) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # As the requirement is read.
            return value.strip()
        case int() | float():
            return str(value)
        case _:
            return None
