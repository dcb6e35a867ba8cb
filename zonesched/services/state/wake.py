"""Wake-ups: whoever changed rows tells those who wait for work that there may be some.

Each listener has one verb. A wake-up only shortens a pause: all listeners poll the rows anyway, so a lost
wake-up costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from zonesched.seams import Loop
from zonesched.services.state.boot_queue import BootQueue, NewBoot
from zonesched.services.state.notifications import Notifications
from zonesched.store.placements import OnHost, Placement


class Wake:
    """The listeners of one zone. The loops of this process are added when background work starts."""

    def __init__(self, boots: BootQueue, notifications: Notifications) -> None:
        self.boot_loops: list[Loop] = []
        self.child_call_loops: list[Loop] = []
        self.sync_loops: list[Loop] = []
        self._boots = boots
        self._notifications = notifications

    def boots(self) -> None:
        """Let the boot workers of all processes of the zone poll the rows."""
        self.boots_here()
        self.boots_elsewhere()

    def boots_here(self) -> None:
        """Let the boot workers of this process poll the rows."""
        self._boots.poll_now()
        _wake(self.boot_loops)

    def boots_elsewhere(self) -> None:
        """Let a boot worker of whichever process is notified first poll the rows."""
        self._notifications.boots()

    def new_boot(self, boot: NewBoot) -> None:
        """Give a boot that was just accepted to the workers of this process."""
        self._boots.put(boot)
        _wake(self.boot_loops)

    def agents(self, places: Iterable[Placement]) -> None:
        """Let the agents of those places that are on local hosts ask for their work."""
        self.agents_of(p.where.host_id for p in places if isinstance(p.where, OnHost))

    def agents_of(self, host_ids: Iterable[str]) -> None:
        """Let the agents of these hosts ask for their work."""
        self._notifications.agents(host_ids)

    def host_readers(self) -> None:
        """Let every process of the zone read again the hosts that it keeps in memory."""
        self._notifications.hosts()

    def child_calls(self) -> None:
        """Send the calls to children that are pending."""
        _wake(self.child_call_loops)

    def sync(self) -> None:
        """Ask the children that have unfinished instances of ours for changes."""
        _wake(self.sync_loops)


def _wake(loops: Iterable[Loop]) -> None:
    for loop in loops:
        loop.wake()
