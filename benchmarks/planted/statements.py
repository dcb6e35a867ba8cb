"""Statements and annotations of a module's source, by their lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set


def lines_of_calls(source: str) -> list[int]:
    """Return the lines where a statement begins that is a call alone."""
    return [node.lineno for node in _calls(source)]


def without_call(source: str, line: int) -> str:
    """Return the source with `pass` in the place of the call that begins in a line."""
    (node,) = [node for node in _calls(source) if node.lineno == line]
    lines = source.splitlines(keepends=True)
    last = node.end_lineno or line
    head, tail = lines[line - 1][: node.col_offset], lines[last - 1][node.end_col_offset :]
    return "".join([*lines[: line - 1], f"{head}pass{tail}", *lines[last:]])


def entries(source: str) -> list[int]:
    """Return the lines where the entries of a module's own tables and sets begin, in their order."""
    return [line for (line, _), _ in _entries(source)]


def without_entry(source: str, number: int) -> str:
    """Return the source without the `number`th entry; what is left of a set may be an empty table."""
    (first, start), (last, end) = _entries(source)[number]
    lines = source.splitlines(keepends=True)
    kept = f"{lines[first - 1][:start]}{lines[last - 1][end:]}"
    return "".join([*lines[: first - 1], kept, *lines[last:]])


def annotated(source: str) -> Set[tuple[int, int]]:
    """Return the positions (line, column) within annotations, which nothing evaluates."""
    return {
        (line, column)
        for annotation in _annotations(ast.parse(source))
        for line in range(annotation.lineno, (annotation.end_lineno or annotation.lineno) + 1)
        for column in _columns(annotation, line)
    }


def _calls(source: str) -> list[ast.Expr]:
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]


def _entries(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return for each entry the position (line, column) of its start and that of what follows."""
    found: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for node in (node for one in ast.parse(source).body for node in _tables(one)):
        # In a table, `**` stands before a part without a key.
        keys = node.keys if isinstance(node, ast.Dict) else node.elts
        parts = zip(keys, node.values if isinstance(node, ast.Dict) else node.elts, strict=True)
        starts = [
            (key.lineno, key.col_offset) if key else (value.lineno, value.col_offset - len("**"))
            for key, value in parts
        ]
        ends = [*starts[1:], (node.end_lineno or 0, (node.end_col_offset or 0) - len("}"))]
        found += zip(starts, ends, strict=False)
    return found


def _tables(statement: ast.stmt) -> Iterator[ast.Dict | ast.Set]:
    """Yield the tables and sets that an assignment of a module writes down."""
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        for node in ast.walk(statement):
            if isinstance(node, ast.Dict | ast.Set):
                yield node


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation):
                yield annotation
            case ast.arg(annotation=ast.expr() as annotation):
                yield annotation
            case ast.FunctionDef(returns=ast.expr() as returns):
                yield returns


def _columns(node: ast.expr, line: int) -> range:
    """Return the columns of a node in one of its lines, which are shorter than 200."""
    first = node.col_offset if line == node.lineno else 0
    return range(first, (node.end_col_offset or 0) + 1 if line == node.end_lineno else 200)
