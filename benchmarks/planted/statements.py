"""Statements and annotations of a module's source, by their lines."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set


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


def uses_of_names(source: str) -> Mapping[int, frozenset[int]]:
    """Return by line of a module's own assignments the lines of its functions that use their names.

    A name that is used in another assignment is used where the name of that one is.
    """
    tree = ast.parse(source)
    given = {_name_of(node): node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)}
    used_at: defaultdict[str, set[int]] = defaultdict(set)
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            for name, line in _names_in(node):
                used_at[name].add(line)
    # A name is given before it is used in another assignment.
    for name, node in reversed(given.items()):
        for part, _ in _names_in(node):
            if part in given and part != name:
                used_at[part] |= used_at[name]
    return {
        line: frozenset(used_at[name])
        for name, node in given.items()
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if used_at[name]
    }


def _name_of(node: ast.Assign | ast.AnnAssign) -> str:
    """Return the first name of an assignment, "" if it gives none."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    return first.id if isinstance(first, ast.Name) else ""


def _names_in(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that is read within a node, and its line."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id, part.lineno
