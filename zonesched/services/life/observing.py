"""Observed states: an agent's or a child's report on a built instance, with all its consequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.model.desired_state import is_news
from zonesched.model.observed_state import Observed
from zonesched.model.request_spec import Image
from zonesched.store import instance_actions, instance_states, instances
from zonesched.store.instance_states import StoredState
from zonesched.store.store import Transaction

UNSURPRISING = Observed()
"""The state of an instance that never had an action and runs: no row, and never news."""


def adopt(
    rows: Mapping[str, StoredState],
    seen: Sequence[tuple[str, Observed]],
    built_at: Mapping[str, float],
) -> list[StoredState]:
    """Return the rows of which a child reports a later generation than was ever decided here.

    They were put back from a copy: what the child has reached counts as desired.
    """
    adopted: list[StoredState] = []
    for uuid, observed in seen:
        row = rows.get(uuid) or StoredState(uuid, built_at=built_at[uuid])
        if observed.generation > row.state.desired.generation:
            desired = replace(
                row.state.desired,
                generation=observed.generation,
                power=observed.power,
                rebuilds=observed.rebuilds,
            )
            state = replace(row.state, desired=desired)
            adopted.append(replace(row, state=state, told_generation=observed.generation))
    return adopted


def observe(
    tx: Transaction,
    change: int,
    seen: Sequence[tuple[str, Observed]],
    built_at: Mapping[str, float],
    now: float,
) -> None:
    """Store what was observed of instances, in this order; actions whose generation was reached end.

    The instances are locked, and the reports are on their present attempts. An old or repeated report
    changes nothing. `built_at`: by uuid, for instances that have no row yet.
    """
    before = instance_states.read(tx, sorted({uuid for uuid, _ in seen}))
    rows = dict(before)
    for uuid, observed in seen:
        row = rows.get(uuid) or StoredState(uuid, built_at=built_at[uuid])
        if is_news(row.state, observed):
            rows[uuid] = row.observing(observed)
    changed = [row for uuid, row in rows.items() if row is not before.get(uuid)]
    if not changed:
        return
    instance_states.write(tx, changed, before.keys())
    instances.touch(tx, change, [row.uuid for row in changed], now)
    _count_new_images(tx, change, before, changed)
    reached = {row.uuid: (row.state.observed.generation, row.state.observed.reason) for row in changed}
    instance_actions.reached(tx, reached, now)


def _count_new_images(
    tx: Transaction, change: int, before: Mapping[str, StoredState], changed: Sequence[StoredState]
) -> None:
    """Note the images of rebuilt instances where hosts count the images of theirs."""
    for row in changed:
        image = row.state.image
        if isinstance(image, Image) and (row.uuid not in before or image != before[row.uuid].state.image):
            instances.set_image(tx, change, row.uuid, image)
