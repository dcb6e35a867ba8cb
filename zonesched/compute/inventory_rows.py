"""The rows of an inventory file, each with the line it begins on; `inventory` checks their contents."""

from __future__ import annotations

import csv
import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from zonesched.compute.inventory_fields import CLASS_NAME, FACTS, RATIO, WHOLE_PARTS, InventoryError
from zonesched.decimal_text import decimal_number, whole_number
from zonesched.model.json_shape import DEEPEST, nests_deeper

Row = tuple[int, Mapping[str, Any]]

PARTS = (*WHOLE_PARTS[1:], RATIO)


def json_rows(text: str) -> Iterator[Row]:
    """Return the objects of the array one by one, with their lines. Raises InventoryError."""
    _check_depth(text)
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    at = _skip(text, 0, "")
    if text[at : at + 1] != "[":
        raise InventoryError("line 1: a JSON inventory is an array of hosts")
    at = _skip(text, at + 1, "")
    while text[at : at + 1] != "]":
        line = text.count("\n", 0, at) + 1
        try:
            row, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise InventoryError(f"line {error.lineno}: {error.msg}") from None
        except ValueError:
            raise InventoryError(f"line {line}: a number is too long, or NaN or infinite") from None
        if not isinstance(row, dict):
            raise InventoryError(f"line {line}: a host is a JSON object")
        yield line, row
        at = _skip(text, at, ",")


def _check_depth(text: str) -> None:
    if not nests_deeper(text, DEEPEST):
        return
    lines = text.splitlines(keepends=True)
    line = bisect_left(
        range(1, len(lines)), True, key=lambda number: nests_deeper("".join(lines[:number]), DEEPEST)
    )
    raise InventoryError(f"line {line + 1}: nests deeper than {DEEPEST} levels")


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _skip(text: str, at: int, separator: str) -> int:
    while at < len(text) and (text[at].isspace() or text[at] == separator):
        at += 1
    return at


def csv_rows(text: str) -> Iterator[Row]:
    """Return the lines below the header in the form of the JSON objects. Raises InventoryError."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if _counts(line)]
    if not lines:
        raise InventoryError("line 1: the header is missing")
    (header_line, header_text), *rest = lines
    header = _cells(header_line, header_text)
    try:
        _check_header(header)
    except ValueError as error:
        raise InventoryError(f"line {header_line}: {error}") from None
    for number, line in rest:
        cells = _cells(number, line)
        if len(cells) != len(header):
            raise InventoryError(f"line {number}: {len(cells)} cells, the header has {len(header)}")
        try:
            yield number, _row(dict(zip(header, cells, strict=True)))
        except ValueError as error:
            raise InventoryError(f"line {number}: {error}") from None


def _counts(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _cells(number: int, line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error as error:
        raise InventoryError(f"line {number}: {error}") from None


def _check_header(header: list[str]) -> None:
    for column in header:
        name, _, part = column.partition(".")
        if column not in FACTS and not (CLASS_NAME.fullmatch(name) and part in ("", *PARTS)):
            raise ValueError(
                f"{column}: unknown column; known are {', '.join(FACTS)}, resource classes such as VCPU,"
                f" and VCPU.{', VCPU.'.join(PARTS)}"
            )
        if header.count(column) > 1:
            raise ValueError(f"{column}: is twice in the header")


def _row(cells: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"inventories": {}}
    for column, cell in cells.items():
        if column == "capabilities":
            row[column] = {key: _value(text) for key, text in _pairs(column, cell)}
        elif column == "metrics":
            row[column] = {key: _number(f"metrics.{key}", text) for key, text in _pairs(column, cell)}
        elif column == "traits":
            row[column] = [trait.strip() for trait in cell.split(";") if trait.strip()]
        elif column in FACTS:
            row[column] = cell
        elif cell:
            name, _, part = column.partition(".")
            row["inventories"].setdefault(name, {})[part or "total"] = _number(column, cell)
    return row


def _pairs(column: str, cell: str) -> Iterator[tuple[str, str]]:
    """Parse the key=value;key=value of a cell."""
    for pair in filter(str.strip, cell.split(";")):
        key, separator, value = (text.strip() for text in pair.partition("="))
        if not key or not separator:
            raise ValueError(f"{column}: {pair!r} is not key=value")
        yield key, value


def _value(text: str) -> int | float | str:
    """Return a number where the text is one."""
    try:
        return _number("", text)
    except ValueError:
        return text


def _number(what: str, cell: str) -> int | float:
    whole = whole_number(cell)
    number = decimal_number(cell) if whole is None else whole
    if number is None:
        raise ValueError(f"{what}: {cell!r} is not a number")
    return number
