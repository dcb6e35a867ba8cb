"""Single changes to the code that decides, drawn by machine.

Operators are those of cosmic-ray, by its positions and its rewriting; it takes away no statement and
no entry of a table, which is added here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider

from benchmarks.planted.statements import annotated, entries, lines_of_calls, without_call, without_entry

ROOMS = (
    "zonesched/api/cors.py",
    "zonesched/scheduler",
    "zonesched/seal",
    "zonesched/services",
    "zonesched/compute/agent.py",
    "zonesched/compute/lease.py",
    "zonesched/compute/machine.py",
    "zonesched/compute/restored_zone.py",
    "zonesched/compute/watchdog.py",
    "zonesched/model/action_table.py",
    "zonesched/model/desired_state.py",
    "zonesched/model/move_steps.py",
    "zonesched/model/observed_state.py",
    "zonesched/model/placement.py",
    "zonesched/model/placement_moves.py",
    "zonesched/model/shown_status.py",
    "zonesched/store/child_placements.py",
    "zonesched/store/claims.py",
    "zonesched/store/fencing_promises.py",
    "zonesched/store/group_places.py",
    "zonesched/store/inbound.py",
    "zonesched/store/instance_states.py",
    "zonesched/store/instances.py",
    "zonesched/store/locks.py",
    "zonesched/store/moves.py",
    "zonesched/store/new_placements.py",
    "zonesched/store/placements.py",
    "zonesched/store/recovery.py",
    "zonesched/store/reservations.py",
)
"""Code that decides: folders and modules."""

REPLACED = (
    *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "BitOr_BitAnd", "BitAnd_BitOr"),
    *("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt"),
    *("Is_IsNot", "IsNot_Is", "USub_UAdd", "Delete_Not"),
)
"""Replacements of operators; the others of cosmic-ray fail at once, as a power of two dataclasses does."""

OTHERS = (
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "NumberReplacer", "ZeroIterationForLoop"),
)
REMOVED = "RemoveCall"
REMOVED_ENTRY = "RemoveEntry"


@dataclass(frozen=True)
class Mutant:
    """One change: the `occurrence`th that an operator can make in a file, which is in this line."""

    path: str
    line: int
    operator: str
    occurrence: int

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.operator} {self.occurrence}"

    def changed(self, source: str) -> str:
        """Return the source with the change."""
        if self.operator == REMOVED:
            return without_call(source, self.line)
        if self.operator == REMOVED_ENTRY:
            return without_entry(source, self.occurrence)
        changed = MutationVisitor.mutate_code(source, _operator(self.operator), self.occurrence)
        if changed is None:
            raise ValueError(f"There is no such change: {self.name}")
        return str(changed)


def files(checkout: Path, rooms: Sequence[str] = ROOMS) -> list[str]:
    """Name all modules of these rooms, from the checkout."""
    found = [
        path
        for room in rooms
        for path in ([checkout / room] if room.endswith(".py") else sorted((checkout / room).rglob("*.py")))
    ]
    return [str(path.relative_to(checkout)) for path in found if path.name != "__init__.py"]


def of_file(path: str, source: str) -> list[Mutant]:
    """List all changes that can be made to a file, without those to annotations."""
    unused = annotated(source)
    tree = get_ast(source)
    names = [name for name in OperatorProvider() if name in OTHERS or _replacement(name) in REPLACED]
    found: list[Mutant] = []
    for name in names:
        operator = _operator(name)
        positions = [at for node in ast_nodes(tree) for at in operator.mutation_positions(node)]
        found += [
            Mutant(path, start[0], name, number)
            for number, (start, _) in enumerate(positions)
            if (start[0], start[1]) not in unused
        ]
    found += [Mutant(path, line, REMOVED, 0) for line in lines_of_calls(source)]
    found += [Mutant(path, line, REMOVED_ENTRY, number) for number, line in enumerate(entries(source))]
    return found


def draw(by_line: Mapping[tuple[str, int], list[Mutant]], count: int, seed: int) -> list[Mutant]:
    """Draw so many lines evenly, and a change of each."""
    rng = random.Random(seed)
    lines = rng.sample(sorted(by_line), min(count, len(by_line)))
    return [rng.choice(by_line[line]) for line in lines]


def _operator(name: str) -> Operator:
    return OperatorProvider()[name]()


def _replacement(name: str) -> str:
    return "_".join(name.split("_")[1:])
