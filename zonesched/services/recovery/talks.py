"""Talks with child zones about a restore, each in a thread of its own.

What a child has to be told, or tells, may take any number of calls. One that hangs, or whose answers never
end, keeps only its own thread busy: the others are talked with, and all are polled, as if it were not there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from zonesched.errors import ChildUnreachable
from zonesched.seams import Bulkhead, Failed
from zonesched.services.zone import Zone
from zonesched.store.outages import log_failed
from zonesched.zones.child import Child

log = logging.getLogger(__name__)

Talk = Callable[[Zone, Child], None]


def talk(zone: Zone, children: Sequence[Child], say: Talk, complaint: str) -> None:
    """Talk with these children, but for those that are being talked with; wait `retry_pause` at most.

    `complaint`: what is logged of a child that does not answer.
    """
    if not children:
        return
    calls = [(Bulkhead(f"{c.id}-restore", 1), partial(_alone, zone, c, say, complaint)) for c in children]
    for outcome in zone.executor.gather(calls, zone.conf.retry_pause):
        if isinstance(outcome, Failed):
            log_failed("a talk with a child zone about a restore failed, and begins again", outcome.error)


def _alone(zone: Zone, child: Child, say: Talk, complaint: str) -> None:
    with zone.restored.talk_with(child.id) as is_first:
        if not is_first:
            return
        try:
            say(zone, child)
        except ChildUnreachable as error:
            log.warning("child zone %s %s: %s", child.name, complaint, error.code)
