"""Fault messages of ERROR instances; those for their owners name reasons, never hosts."""

from __future__ import annotations

from dataclasses import replace

from zonesched.model import action_reasons
from zonesched.model.build_plan import FunnelStep
from zonesched.model.decision_trace import DecisionTrace
from zonesched.model.placement import BuildState, InstanceChange, InstanceStatus
from zonesched.services.select.explain import explain

NOT_ALL_ANSWERED = "no_valid_host_incomplete"
"""The reason of a boot for which a zone did not answer, or was busy, when asked for offers or holds."""

OFFERS_LIMITED = "offers_limited"
"""The reason of a boot of more instances than zones offer places for to so many selects."""

MESSAGES = {
    "no_valid_host": "No zone has room for this request.",
    NOT_ALL_ANSWERED: "No zone that answered in time has room for this request.",
    OFFERS_LIMITED: "A zone offers fewer places to one boot than this request needs.",
    "group_place_full": "The place of the server group has no room for this request.",
    "build_failed": "The host could not build the instance.",
    "build_timeout": "The host did not report in time that the instance was built.",
    "ended_on_host": "The instance ran and ended by itself on its host.",
    "lost_by_host": "The host no longer has the instance.",
    "deleted_in_child": "The zone that had the instance has deleted it.",
    "lost_in_child": "The zone that had the instance no longer knows it.",
    "lost_in_restore": "Nothing of the instance was found after its zone was restored from a copy.",
    "place_lost": "The place of the instance is no longer known.",
    "zone_lost": "The zone that had the instance is no longer part of this cloud.",
    "filter_failed": "A filter of this zone failed.",
    "weigher_failed": "A weigher, cost function or scheduler of this zone failed.",
}
"""Messages by the stable reason code of an ERROR instance."""


def message(reason: str, why: DecisionTrace, *, was_built: bool) -> str:
    """Make one or two sentences: the fault, and the codes of refusals or the filter that failed.

    A driver's own code says no more than whether the instance ran before.
    """
    unknown = MESSAGES["ended_on_host"] if was_built else "The instance could not be built."
    text = MESSAGES.get(reason, unknown)
    names = refused_by(reason, why)
    if not names:
        return text
    return f"{text} Refused by: {', '.join(names)}." if reason in _REFUSED else f"{text} It is {names[0]}."


def details(reason: str, why: DecisionTrace) -> str:
    """Tell the zone's admin more of a fault that concerns hosts; "" for others."""
    return hosts_left(why) if reason in _REFUSED else ""


def hosts_left(why: DecisionTrace) -> str:
    """Tell the zone's admin how many hosts of this zone each filter left; "" where none removed any."""
    left = [
        f"{step.filter} ({step.code})"
        + (f" {step.before} to {step.after}" if isinstance(step, FunnelStep) else "")
        for step in (*why.own.steps, *why.own.runs_out)
        if not isinstance(step, FunnelStep) or step.after < step.before
    ]
    return f"Hosts left: {', '.join(left)}." if left else ""


PLACE_CODES = frozenset(
    {
        "blob_refused",
        "cancelled",
        "claim_lost",
        "group_broken",
        "group_elsewhere",
        "group_host_full",
        "hold_expired",
        "hold_gone",
        "hold_late",
        "no_answer",
        "repaired",
    }
)
"""Stable reason codes of an attempt that failed, or was released, without a build."""


def for_parent(reason: str, *, was_built: bool = False) -> str:
    """Reduce a reason to one of the stable codes for a parent; an agent's own text stays in this zone."""
    own_text = "ended_on_host" if was_built else "build_failed"
    return reason if reason in MESSAGES or reason in PLACE_CODES else own_text


def change_for_parent(change: InstanceChange) -> InstanceChange:
    """Make the change that is reported to a parent, with only stable codes as reasons."""
    if (observed := change.observed) is not None:
        reason = action_reasons.for_parent(observed.reason)
        change = replace(change, observed=replace(observed, reason=reason))
    is_failed = change.state is BuildState.FAILED
    if not change.reason or not (is_failed or change.status is InstanceStatus.ERROR):
        return change
    was_built = change.state is BuildState.CONFIRMED
    return replace(change, reason=for_parent(change.reason, was_built=was_built))


def refused_by(reason: str, why: DecisionTrace) -> list[str]:
    """List the codes of refused hosts for a reason that concerns hosts; for others the plugin that failed."""
    if reason in _REFUSED:
        return refusals(why)
    return [step.filter for step in why.own.steps if step.code == reason]


_REFUSED = ("no_valid_host", NOT_ALL_ANSWERED, OFFERS_LIMITED, "group_place_full")


def refusals(why: DecisionTrace) -> list[str]:
    """List the codes of all refusals of hosts and of further instances, each once."""
    lines = [*explain(why.why, "reasons"), *explain(why.runs_out, "reasons")]
    return list(dict.fromkeys(line["code"] for line in lines))
