"""Large bodies share a bounded memory and are parsed one at a time."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from zonesched.api import body_room
from zonesched.api.body_room import BYTES_OF_A_VALUE, MIB, SMALL_BYTES, BodyRoom
from zonesched.errors import ZoneBusy
from zonesched.model.caller import Caller, Role


def a_caller(name: str, role: Role = Role.MEMBER) -> Caller:
    return Caller(name, name, role, "p")


def a_body(mib: int) -> bytes:
    """A body that counts as so many MiB."""
    values = mib * MIB // (BYTES_OF_A_VALUE + 2)
    return b"," * (values - 1)


MEMBER, OTHER, THIRD = (a_caller(name) for name in ("member", "other", "third"))
PARENT = a_caller("parent", Role.PARENT)


def test_a_small_body_is_never_refused() -> None:
    room = BodyRoom()
    with ExitStack() as held:
        for _ in range(1000):
            held.enter_context(room.hold(MEMBER, b"," * SMALL_BYTES))


def test_one_member_has_a_part_and_leaves_the_rest() -> None:
    room = BodyRoom()
    with room.hold(MEMBER, a_body(50)):
        with pytest.raises(ZoneBusy) as refused, room.hold(MEMBER, a_body(50)):
            pass
        assert refused.value.retry_after_s >= 1
        with room.hold(OTHER, a_body(50)):
            pass
    with room.hold(MEMBER, a_body(50)):
        pass


def test_members_together_leave_memory_to_a_parent() -> None:
    room = BodyRoom()
    with room.hold(MEMBER, a_body(60)), room.hold(OTHER, a_body(60)):
        with pytest.raises(ZoneBusy), room.hold(THIRD, a_body(60)):
            pass
        with room.hold(PARENT, a_body(120)):
            pass


def test_memory_is_given_back_whatever_happens() -> None:
    room = BodyRoom()
    for _ in range(10):
        with pytest.raises(KeyError), room.hold(MEMBER, a_body(60)):
            raise KeyError


def test_large_bodies_are_parsed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_room, "PARSING_S", 0.01)
    room = BodyRoom()
    refused: list[ZoneBusy] = []

    def parse(data: bytes) -> None:
        try:
            with room.parse(data):
                pass
        except ZoneBusy as error:
            refused.append(error)

    with room.parse(a_body(40)):
        for data in (a_body(40), b"{}"):
            other = threading.Thread(target=parse, args=(data,))
            other.start()
            other.join()
    assert len(refused) == 1
    parse(a_body(40))
    assert len(refused) == 1
