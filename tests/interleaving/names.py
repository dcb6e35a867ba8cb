"""Callers of the scene, and the ids of its instances and boots."""

from __future__ import annotations

from zonesched.model.caller import Caller, Role

PARENT = Caller("00000000-0000-4000-8000-000000000001", "parent", Role.PARENT, "")
BOUNDED = Caller("00000000-0000-4000-8000-000000000002", "bounded", Role.PARENT, "")
OWNER = Caller("user-1", "owner", Role.MEMBER, "project-1")
ADMIN = Caller("admin-1", "admin", Role.ADMIN, "project-0")
CHILD = "00000000-0000-4000-8000-00000000000c"
HOLD_S = 30.0


def uuid_of(number: int) -> str:
    """The uuid of one of the scene's instances or boots."""
    return f"11111111-1111-4111-8111-{number:012d}"


def boot_of(uuid: str) -> str:
    """The id of the boot of one of the scene's own instances."""
    return uuid.replace("11111111", "22222222", 1)


HELD, NEW, ELSEWHERE, INTO_CHILD = map(uuid_of, range(1, 5))
FRESH, FAILING, LEFT, SERVER = map(uuid_of, range(5, 9))
BELOW, ASKED, OFFERED, DOOMED = map(uuid_of, range(10, 14))
PLACING, LEAVING, ARRIVING, RESIZED, RESTING = map(uuid_of, range(14, 19))
MEMBER, OTHERS = uuid_of(20), (uuid_of(21), uuid_of(22), uuid_of(23))
BOOT, MEMBERS = uuid_of(100), uuid_of(101)
SENT, SENT_BOOT = uuid_of(91), uuid_of(192)
NEW_BOOTS, NEW_SERVERS = (uuid_of(110), uuid_of(111)), (uuid_of(200), uuid_of(201))
TOGETHER, APART, JOINED = uuid_of(120), uuid_of(121), uuid_of(122)
