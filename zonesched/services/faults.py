"""Why an instance is in ERROR, in words for its owner: reasons, never hosts."""

from __future__ import annotations

from zonesched.model.account import Account
from zonesched.services.explain import explain

MESSAGES = {
    "no_valid_host": "No zone has room for this request.",
    "no_valid_host_incomplete": "No zone that answered in time has room for this request.",
    "group_place_full": "The place of the server group has no room for this request.",
    "build_failed": "The host could not build the instance.",
    "lost_by_host": "The host no longer has the instance.",
    "deleted_below": "The zone that had the instance has deleted it.",
    "zone_lost": "The zone that had the instance is no longer part of this cloud.",
    "filter_failed": "A filter of this zone failed.",
    "weigher_failed": "A weigher of this zone failed.",
}
"""The stable reason codes of an ERROR instance."""


def message(reason: str, why: Account) -> str:
    """One or two sentences: what happened, and the codes of what refused hosts, or the filter that failed."""
    text = MESSAGES.get(reason, "The instance could not be built.")
    codes = refusals_for(reason, why)
    if codes:
        return f"{text} Refused by: {', '.join(codes)}."
    failed = [step.filter for step in why.own.steps if step.code == reason]
    return f"{text} It is {failed[0]}." if failed else text


def for_parent(reason: str) -> str:
    """The reason of an ERROR instance as a parent is told it: an agent's own words stay in this zone."""
    return reason if reason in MESSAGES else "build_failed"


def refusals_for(reason: str, why: Account) -> list[str]:
    """What refused hosts, for a reason that is about that; nothing for others."""
    return refusals(why) if reason in _REFUSED else []


_REFUSED = ("no_valid_host", "no_valid_host_incomplete", "group_place_full")


def refusals(why: Account) -> list[str]:
    """The codes of what refused any host, or any further instance, each once."""
    lines = [*explain(why.why, "reasons"), *explain(why.limits, "reasons")]
    return list(dict.fromkeys(line["code"] for line in lines))
