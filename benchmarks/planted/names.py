"""Lines of a package's functions that use the names which its modules give at their import."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Name(NamedTuple):
    """Name that a module gives by an assignment, as that of a statement of SQL or of a table of states."""

    path: str
    name: str


class Line(NamedTuple):
    """Line of a module."""

    path: str
    number: int


def uses_of_names(sources: Mapping[str, str]) -> Mapping[Line, frozenset[Line]]:
    """Return by line of the modules' own assignments the lines of functions that use their names.

    A name that is used in another assignment is used where the name of that one is, in any of these modules.
    `sources`: by path, from the folder of the package.
    """
    trees = {path: ast.parse(source) for path, source in sources.items()}
    given = {
        Name(path, name): node for path, tree in trees.items() for node in tree.body for name in _given(node)
    }
    used_at: defaultdict[Name, set[Line]] = defaultdict(set)
    used_in: defaultdict[Name, set[Name]] = defaultdict(set)
    for path, tree in trees.items():
        imported = _imported(tree)
        for node in tree.body:
            users = {Name(path, name) for name in _given(node)}
            for name, line in _names_in(node, path, imported):
                if users:
                    used_in[name] |= users
                else:
                    used_at[name].add(Line(path, line))
    found: defaultdict[Line, frozenset[Line]] = defaultdict(frozenset)
    for name, node in given.items():
        used = frozenset(line for user in _users(name, used_in) for line in used_at[user])
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            found[Line(name.path, line)] |= used
    return {line: used for line, used in found.items() if used}


def _given(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module assigns."""
    match node:
        case ast.Assign(targets=targets):
            parts = [part for target in targets for part in ast.walk(target)]
        case ast.AnnAssign(target=target):
            parts = [target]
        case _:
            parts = []
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _imported(tree: ast.Module) -> Mapping[str, Name]:
    """Return what a module imports from others, by its name there; of a module the name is ""."""
    return {
        alias.asname or alias.name: Name(node.module.replace(".", "/"), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _names_in(node: ast.AST, path: str, imported: Mapping[str, Name]) -> Iterator[tuple[Name, int]]:
    """Yield each name of a module that is read within a node, and its line."""
    for part in ast.walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id=module), attr=attribute) if module in imported:
                package, name = imported[module]
                yield Name(f"{package}/{name}.py", attribute), part.lineno
            case ast.Name(id=name, ctx=ast.Load()) if name in imported:
                package, of = imported[name]
                yield Name(f"{package}.py", of), part.lineno
            case ast.Name(id=name, ctx=ast.Load()):
                yield Name(path, name), part.lineno


def _users(name: Name, used_in: Mapping[Name, set[Name]]) -> set[Name]:
    """Return a name and all those whose assignments use it, also by way of others."""
    found, new = {name}, {name}
    while new:
        new = {user for one in new for user in used_in.get(one, ())} - found
        found |= new
    return found
