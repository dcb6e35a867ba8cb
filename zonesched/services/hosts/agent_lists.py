"""Lists of what should run on an agent's hosts, which note each build before the agent has it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from zonesched.store import agent_work, locks, services
from zonesched.store.agent_work import Work
from zonesched.store.services import Owned
from zonesched.store.store import Store, Transaction


def read(store: Store, own: Owned, known: Collection[str] = ()) -> Work:
    """Read the instances that should run on the service's hosts, and note them as fetched.

    `known`: tags of parts that the agent has. Raises NotFound for a service that was removed, and Conflict
    for one that was registered meanwhile.
    """

    def look(tx: Transaction) -> tuple[Sequence[Any], Sequence[str], Work]:
        rows = agent_work.read(tx, own.id)
        new = agent_work.unfetched(rows)
        return rows, new, agent_work.listed(tx, [] if new else rows, known)

    rows, new, work = store.read(look)
    if not new:
        return work
    store.write(partial(_note_fetched, own=own, uuids=new))
    # What a successor of the agent may have fetched since is none of its own.
    seen = {(row.uuid, row.number) for row in rows}

    def look_again(tx: Transaction) -> Work:
        found = [row for row in agent_work.read(tx, own.id) if (row.uuid, row.number) in seen]
        return agent_work.listed(tx, found, known)

    return store.read(look_again)


def _note_fetched(tx: Transaction, own: Owned, uuids: Sequence[str]) -> None:
    """Note these builds as fetched before the agent gets them, so that no build that it may have is moved.

    Builds written since are left to the next call, which locks them. Its successor gets none of them, too.
    """
    services.keep(tx, own)
    locks.instances(tx, uuids)
    agent_work.note_fetched(tx, agent_work.still_unfetched(tx, own.id, uuids))
