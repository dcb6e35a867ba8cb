"""Wake-ups: code that has changed rows wakes the listeners that may have work now.

Each listener has one verb. A wake-up only shortens a pause: all listeners poll the rows anyway, so a lost
wake-up costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from zonesched.seams import Loop
from zonesched.services.state.boot_queue import BootQueue, NewBoot
from zonesched.services.state.notifications import Notifications
from zonesched.store.placements import ClaimedHost, Placement


class Wake:
    """Listeners of one zone. Background work adds the loops of this process when it starts."""

    def __init__(self, boots: BootQueue, notifications: Notifications) -> None:
        self.boot_loops: list[Loop] = []
        self.child_call_loops: list[Loop] = []
        self.sync_loops: list[Loop] = []
        self.move_loops: list[Loop] = []
        self._boots = boots
        self._notifications = notifications

    def boots(self) -> None:
        """Wake the boot workers of all processes of the zone to poll the rows."""
        self.boots_here()
        self.boots_elsewhere()

    def boots_here(self) -> None:
        """Wake the boot workers of this process to poll the rows."""
        self._boots.poll_now()
        _wake(self.boot_loops)

    def boots_elsewhere(self) -> None:
        """Wake a boot worker of one other process, whichever is notified first."""
        self._notifications.boots()

    def new_boot(self, boot: NewBoot) -> None:
        """Hand a newly accepted boot to the workers of this process."""
        if self._boots.put(boot):
            self.boot_worker()

    def boot_worker(self) -> None:
        """Wake one boot worker of this process that rests; busy ones before it look for boots once more."""
        # All would look for the same boot, and each look takes the processor from the request threads.
        for loop in self.boot_loops:
            if loop.wake():
                return

    def agents(self, places: Iterable[Placement]) -> None:
        """Notify the agents of the places that are on local hosts to fetch their work."""
        self.agents_of(p.where.host_id for p in places if isinstance(p.where, ClaimedHost))

    def agents_of(self, host_ids: Iterable[str]) -> None:
        """Notify the agents of these hosts to fetch their work."""
        self._notifications.agents(host_ids)

    def host_readers(self) -> None:
        """Wake every process of the zone to refresh its hosts in memory."""
        self._notifications.hosts()

    def child_calls(self) -> None:
        """Wake the loop that sends pending child calls."""
        _wake(self.child_call_loops)

    def moves(self) -> None:
        """Wake the loop that takes steps with moves."""
        _wake(self.move_loops)

    def sync(self) -> None:
        """Wake the loop that asks children for changes."""
        _wake(self.sync_loops)


def _wake(loops: Iterable[Loop]) -> None:
    for loop in loops:
        loop.wake()
