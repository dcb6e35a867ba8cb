"""All that may be taken away: calls of locks, locking clauses of reads, conditions of writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import zonesched
from tests.interleaving import played_store
from tests.interleaving.kinds import Kind
from tests.interleaving.order import TO_THE_END, Given
from tests.interleaving.player import present
from tests.interleaving.removal import CALLS, met_locks, without_lock
from tests.interleaving.scene import Scene
from tests.interleaving.schedule import Schedules
from zonesched.store import tables

_KEYS = {
    table.name: {column.name for column in table.primary_key}
    for table in tables.instances.metadata.sorted_tables
}
_LOCKING = re.compile(r"\s+FOR (UPDATE|NO KEY UPDATE|SHARE|KEY SHARE)[\w ]*$")
_LIST = re.compile(r" IN \(%[^()]*(\([^()]*\)[^()]*)*\)")
_READ = re.compile(r"\b(?:FROM|JOIN) (\w+)")
_WRITE = re.compile(r"(?:UPDATE|DELETE FROM) (\w+)")
_INSERT = re.compile(r"INSERT INTO (\w+) \(([^)]*)\)")
_ASSIGNED = re.compile(r"(\w+)=\S")
_COLUMN = re.compile(r"\b([a-z_]+)\.([a-z_]+)\b")


@dataclass(frozen=True)
class Removal:
    """One thing that may be taken away. `taken_away` leaves it out while its block runs.

    `columns`: those that it looks at, as "table.column"; none of a lock.
    """

    what: str
    taken_away: Callable[[], AbstractContextManager[None]] = field(compare=False, repr=False)
    columns: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Met:
    """Removals that a kind meets alone, each with the number of its steps before that, and tables.

    `touched`: the tables that it reads, locks or writes; `rows`: the rows that it changes; `columns`: those
    that it writes, as "table.column".
    """

    removals: Mapping[Removal, int]
    steps: int
    written: frozenset[str]
    touched: frozenset[str]
    rows: frozenset[str]
    columns: frozenset[str]


def lock_calls() -> set[str]:
    """Find the calls of `locks` in the package: "hosts in claims.claim_noted"."""
    root = Path(zonesched.__file__).parent
    found: set[str] = set()
    for path in sorted(root.rglob("*.py")):
        if path.name != "locks.py":
            _note_calls(ast.parse(path.read_text()), path.stem, "", found)
    return found


def survey(scene: Scene, kind: Kind) -> Met:
    """Play a kind alone, and note what may be taken away from it."""
    met: dict[Removal, int] = {}

    def note_lock(name: str, site: str) -> Callable[[], None]:
        player = present()
        steps = [] if player is None else player.steps
        before = len(steps)

        def done() -> None:
            # A lock of nothing sends no statement.
            if len(steps) > before:
                met.setdefault(_of_lock(name, site), before)

        return done

    with met_locks(note_lock):
        played = Schedules(scene, [kind]).judged(Given([("a", TO_THE_END)]))
    statements = played.statements[0]
    for number, statement in enumerate(statements):
        for removal in _of_statement(statement):
            met.setdefault(removal, number)
    written = frozenset(name for text in statements for name in played_store.tables_of(text)) & _KEYS.keys()
    read = frozenset(name for text in statements for name in _READ.findall(text)) & _KEYS.keys()
    rows = frozenset(row for table in written for row in scene.rows.changed_rows(table))
    columns = frozenset(name for text in statements for name in _columns_written(text))
    return Met(met, len(statements), written, written | read, rows, columns)


def _of_lock(name: str, site: str) -> Removal:
    return Removal(f"locks.{name} in {site}", lambda: without_lock(name, site))


def _of_statement(statement: str) -> Iterator[Removal]:
    if _LOCKING.search(statement) and _normal(statement) not in _statements_of_locks():
        yield _rewriting(f"lock of {_normal(statement)}", statement, lambda text: _LOCKING.sub("", text))
    if written := _WRITE.match(statement):
        keys = _KEYS.get(written[1], set())
        for number, condition in enumerate(_conditions(statement)):
            if not _is_key(condition, written[1], keys):
                what = f"condition {' '.join(condition.split())} of {_normal(statement)}"
                looked_at = frozenset(".".join(found) for found in _COLUMN.findall(condition))
                yield _rewriting(
                    what, statement, lambda text, number=number: _without(text, number), looked_at
                )


def _columns_written(statement: str) -> Iterator[str]:
    if found := _INSERT.match(statement):
        yield from (f"{found[1]}.{name.strip()}" for name in found[2].split(","))
    elif found := _WRITE.match(statement):
        names = _ASSIGNED.findall(statement) if statement.startswith("UPDATE") else _columns_of(found[1])
        yield from (f"{found[1]}.{name}" for name in names)


def _columns_of(name: str) -> Sequence[str]:
    return [column.name for column in tables.instances.metadata.tables[name].columns]


def _rewriting(
    what: str, statement: str, change: Callable[[str], str], columns: frozenset[str] = frozenset()
) -> Removal:
    wanted = _normal(statement)

    @contextmanager
    def taken_away() -> Iterator[None]:
        def rewrite(text: str) -> str:
            return change(text) if _normal(text) == wanted else text

        played_store.rewrites.append(rewrite)
        try:
            yield
        finally:
            played_store.rewrites.remove(rewrite)

    return Removal(what, taken_away, columns)


def _normal(statement: str) -> str:
    return " ".join(_LIST.sub(" IN (...)", statement).split())


def _statements_of_locks() -> set[str]:
    from zonesched.store import locks  # noqa: PLC0415
    from zonesched.store.prepared import Prepared  # noqa: PLC0415

    forms = [
        form
        for value in vars(locks).values()
        if isinstance(value, Prepared)
        for form in value._forms.values()
    ]
    return {_normal(form.text) for form in forms}


def _where(statement: str) -> tuple[int, int]:
    """Find the first and last position of the conditions of a write; (0, 0) where it has none."""
    depth, start = 0, 0
    for found in re.finditer(r"[()]|\s(WHERE|RETURNING)\s", statement):
        match found[0].strip():
            case "(":
                depth += 1
            case ")":
                depth -= 1
            case "WHERE" if depth == 0 and not start:
                start = found.end()
            case "RETURNING" if depth == 0 and start:
                return start, found.start()
    return (start, len(statement)) if start else (0, 0)


def _conditions(statement: str) -> list[str]:
    start, end = _where(statement)
    if not start:
        return []
    text, parts, depth, last = statement[start:end], [], 0, 0
    for found in re.finditer(r"[()]|\sAND\s", text):
        match found[0].strip():
            case "(":
                depth += 1
            case ")":
                depth -= 1
            case _ if depth == 0:
                parts.append(text[last : found.start()])
                last = found.end()
    return [*parts, text[last:]]


def _without(statement: str, number: int) -> str:
    start, end = _where(statement)
    left = [text for at, text in enumerate(_conditions(statement)) if at != number]
    return statement[:start] + (" AND ".join(left) or "TRUE") + statement[end:]


def _is_key(condition: str, table: str, keys: set[str]) -> bool:
    """Tell whether a condition only names the rows."""
    found = re.match(rf"\(?{table}\.(\w+) (=|IN) ", condition.strip())
    return found is not None and found[1] in keys


def _note_calls(tree: ast.AST, module: str, inside: str, found: set[str]) -> None:
    for node in ast.iter_child_nodes(tree):
        name = inside
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not _is_function(inside):
            name = f"{inside}{node.name}" + ("." if isinstance(node, ast.ClassDef) else "()")
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "locks"
            and node.func.attr in CALLS
        ):
            found.add(f"locks.{node.func.attr} in {module}.{inside.removesuffix('()')}")
        _note_calls(node, module, name, found)


def _is_function(inside: str) -> bool:
    return inside.endswith("()")


def orders(before: int, steps: int, other_steps: int, most: int) -> Sequence[Given]:
    """Orders that concern what "a" meets after so many steps: one is interrupted once by the other."""
    first = [Given([("a", done), ("b", TO_THE_END)]) for done in range(max(1, before - 1), steps)]
    second = [Given([("b", done), ("a", TO_THE_END)]) for done in range(1, other_steps)]
    return [*_some(first, most * 2 // 3), *_some(second, most // 3)]


def _some(all_: Sequence[Given], most: int) -> Sequence[Given]:
    return all_[:: max(1, -(-len(all_) // most))]
