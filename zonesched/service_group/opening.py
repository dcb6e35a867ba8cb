"""Open the service group that an option names."""

from __future__ import annotations

from zonesched.service_group.contract import NoGroup, ServiceGroup

DB = "db"


def open_group(driver: str, zone_uuid: str, member: str, lives_s: float) -> ServiceGroup:
    """Return the group of a zone at a URL that has been checked; `db` is none. Nothing is connected yet.

    `lives_s`: how long after its last beat a member counts as alive.
    """
    if driver in (DB, ""):
        return NoGroup()
    # Here alone: what it imports is installed only where there is such a group.
    from zonesched.service_group.tooz_group import ToozGroup  # noqa: PLC0415

    return ToozGroup(driver, f"zonesched.{zone_uuid}", member, lives_s)
