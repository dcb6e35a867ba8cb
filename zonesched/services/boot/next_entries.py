"""Entries for the instances of one boot that need a place: those of the last select, or of one more.

It decides when to select again, and when zones that did not answer are asked again. It writes no placement.

A zone that does not answer may never do so again: the boot selects at most `max_attempts` times. One that
answers that its database is away comes back by itself in most cases: for `child_outage_wait` after the boot
was accepted, selects that lack its answer do not count.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from dataclasses import replace

from zonesched.errors import ZoneschedError
from zonesched.model.build_plan import ChildBlob, Entry
from zonesched.model.decision_trace import DecisionTrace
from zonesched.model.own_zone import for_next_place
from zonesched.model.present_request import AS_REQUESTED
from zonesched.model.request_spec import Policy, Unweighed
from zonesched.services.boot.leased_boot import LeasedBoot
from zonesched.services.boot.offers import Offers, Selected, reason_for_none
from zonesched.services.placing import child_answers
from zonesched.services.select import select
from zonesched.services.select.select import Decision
from zonesched.services.zone import Zone

log = logging.getLogger(__name__)


class NextEntries:
    """The offers of a boot's last select, and what is left to ask for.

    `places_at`: time in epoch seconds before which no further select runs; 0.0 where there is nothing to wait
    for. `are_used_up`: neither offers nor selects are left.
    """

    def __init__(self, zone: Zone, rows: LeasedBoot) -> None:
        self.places_at = 0.0
        self.are_used_up = False
        self._zone = zone
        self._rows = rows
        self._offers = Offers()
        self._offers_are_for = AS_REQUESTED
        self._lacking: frozenset[str] = frozenset()

    def renew(self) -> None:
        """Look for places again: an instance needs one that did not when the offers were used up."""
        self.are_used_up, self._lacking = False, frozenset()

    def put_last(self, child_ids: Collection[str]) -> None:
        """Take the entries of these children, which did not answer a build, after all others."""
        self._offers.put_last(child_ids)

    def spare_blobs(self, place: ChildBlob, builds: int) -> tuple[str, ...]:
        """Return further entries of the place's child, for one of so many builds of a call."""
        return self._offers.spare_blobs(place, builds)

    def take(self) -> list[Entry]:
        """Return entries for the instances without a place; none if they are too few."""
        entries = self._take()
        if not entries:
            self.are_used_up = not self.places_at
        return entries

    def _take(self) -> list[Entry]:
        rows, at = self._rows, self._rows.progress
        self.places_at = 0.0
        missing = len(at.needing)
        if self._offers_are_for != at.form:
            self._offers, self._offers_are_for = Offers(), at.form
        if self._lacking.issuperset(one.uuid for one in at.needing):
            # All others have their places: one more select would find as little, and its trace hide why.
            return []
        whole = rows.reservation.spec.policy is Policy.AFFINITY
        entries = self._offers.take(missing, whole=whole)
        # A new select offers the same free slots again, so entries of an older one are never added to it.
        if len(entries) < missing and self._select():
            entries = self._offers.take(missing, whole=whole)
            if len(entries) < missing and not self._offers.complete and self._may_select:
                self.places_at = self._next_select_at()
                if not self._offers.limited:
                    return []
        # Zones that offer no more to one select hold these places, so that the next select has others.
        is_enough = at.possible(len(entries)) >= rows.required
        self._lacking = frozenset(one.uuid for one in at.needing[len(entries) :] if self._offers.are_all)
        return entries if is_enough or (self._offers.limited and self._may_select) else []

    @property
    def _may_select(self) -> bool:
        # Instances that were resized or rebuilt need selects of their own, one after the other.
        rows = self._rows
        return bool(rows.reservation.selects < self._zone.conf.max_attempts * rows.progress.form_count)

    def _next_select_at(self) -> float:
        """Return when to ask again zones that did not answer: after a growing pause, while holds last."""
        conf, rows, reservation = self._zone.conf, self._rows, self._rows.reservation
        now, pause_s = self._zone.clock.now(), child_answers.pause_s(conf, reservation.selects)
        if self._waits_for_a_database(reservation.why):
            # These selects are not counted, so the pause grows with the time that they have taken.
            pause_s = max(pause_s, min(conf.retry_pause_max, (now - reservation.created_at) / 2))
        holds_end_at = min((p.hold_expires_at for p in rows.progress.held), default=math.inf)
        return float(max(now, min(now + pause_s, holds_end_at - conf.hold_margin)))

    def _counts(self, decision: Decision) -> bool:
        """Tell whether a select counts for `max_attempts`."""
        plan, at = decision.plan, self._rows.progress
        found = len(at.needing) if plan.bundles else len(plan.entries)
        is_enough = at.possible(found) >= self._rows.required
        return plan.complete or plan.limited or is_enough or not self._waits_for_a_database(decision.trace)

    def _waits_for_a_database(self, trace: DecisionTrace) -> bool:
        age_s = self._zone.clock.now() - self._rows.reservation.created_at
        return trace.lacks_a_database and 0 <= age_s < self._zone.conf.child_outage_wait

    def _select(self) -> bool:
        """Select once more; False when this boot has no select left, or its request is refused."""
        zone, reservation, at = self._zone, self._rows.reservation, self._rows.progress
        if not self._may_select:
            return False
        asked = self._rows.request_for(at.form)
        if not at.needs_batch:
            # Another request than the boot, maybe years later: its scale and named hosts do not hold.
            asked = replace(asked, hints=for_next_place(asked.hints), weighing=Unweighed())
        spec = replace(asked, num_instances=len(at.needing), time_budget_s=zone.conf.select_timeout)
        try:
            decision = select.decide(zone, spec, reservation.caller_id, select.BEST_HOSTS)
        except ZoneschedError as error:
            log.warning("select for reservation %s failed: %s", reservation.id, error.message)
            self._rows.note_select(Selected(reservation.spec, select.failed(error), error.code))
            return False
        plan, weighed = decision.plan, reservation.spec
        if plan.entries or plan.bundles:
            # Without offers it may be a scale of no hosts, while all children are away: it would weigh none.
            weighed = replace(weighed, weighing=decision.spec.weighing)
        reason = reason_for_none(
            complete=plan.complete, limited=plan.limited, group_place=decision.group_place
        )
        self._rows.note_select(Selected(weighed, decision.trace, reason, self._counts(decision)))
        self._offers = Offers(plan)
        return True
