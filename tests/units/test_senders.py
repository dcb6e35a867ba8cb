"""A sender is known by credentials that were accepted once."""

from __future__ import annotations

from zonesched.model.caller import Caller, Role
from zonesched.model.sender import Kind, Sender
from zonesched.serving.body_input import BodyInput, SenderLog
from zonesched.serving.fair_queue import WAITING_PER_THREAD, FairQueue
from zonesched.serving.senders import MAX_KNOWN, Senders
from zonesched.turns import Turn, Turns, current, end

HEADER = "Basic cGFyZW50OnNlY3JldA=="


def a_caller(role: Role) -> Caller:
    return Caller("id-1", "name", role, "p")


def a_turn_each() -> dict[Kind, Turns]:
    return {Kind.PERSON: Turns(1), Kind.MACHINE: Turns(1)}


def accept(senders: Senders, header: str, role: Role) -> None:
    """Let a caller with this header be authenticated, in a request that ends."""
    SenderLog(senders, a_turn_each(), header).accept(a_caller(role))
    end()


def test_an_address_is_two_strangers_one_with_unproven_credentials() -> None:
    senders = Senders()
    unproven, nobody = senders.of(HEADER.encode(), "192.0.2.1"), senders.of(b"", "192.0.2.1")
    assert unproven == senders.of(b"Basic other", "192.0.2.1")
    assert nobody == Sender(Kind.STRANGER, "192.0.2.1")
    assert unproven.kind is Kind.STRANGER
    assert len({unproven, nobody, senders.of(b"", "192.0.2.2")}) == 3


def test_a_stranger_with_all_addresses_of_a_network_has_one_share_of_the_threads() -> None:
    senders, queue = Senders(), FairQueue[int](8)
    mine = [senders.of(b"", f"2001:db8::{number:x}") for number in range(100)]

    taken = [queue.put(sender, number) for number, sender in enumerate(mine)]

    # Its own part of the queue and one thread are full; a member finds room in both.
    assert sum(taken) == WAITING_PER_THREAD
    assert queue.put(Sender(Kind.PERSON, "member"), 0)
    assert [queue.next(), queue.next(), queue.next()][1:] == [(Sender(Kind.PERSON, "member"), 0), None]
    assert senders.of(b"", "2001:db8:0:1::1") != mine[0]
    assert senders.of(b"", "::ffff:192.0.2.1") == senders.of(b"", "192.0.2.1")


def test_a_parent_and_an_agent_are_machines_once_accepted() -> None:
    for role, kind in ((Role.PARENT, Kind.MACHINE), (Role.COMPUTE, Kind.MACHINE), (Role.MEMBER, Kind.PERSON)):
        senders = Senders()
        accept(senders, HEADER, role)
        assert senders.of(HEADER.encode(), "192.0.2.1") == Sender(kind, "id-1")
        assert senders.of(b"Basic other", "192.0.2.1").kind is Kind.STRANGER


def test_a_header_that_is_refused_is_forgotten() -> None:
    senders = Senders()
    accept(senders, HEADER, Role.PARENT)
    SenderLog(senders, a_turn_each(), HEADER).refuse()
    assert senders.of(HEADER.encode(), "192.0.2.1").kind is Kind.STRANGER


def test_without_a_header_nobody_becomes_known() -> None:
    senders = Senders()
    accept(senders, "", Role.ADMIN)
    assert senders.of(b"", "192.0.2.1").kind is Kind.STRANGER


def test_the_oldest_of_too_many_are_forgotten() -> None:
    senders = Senders()
    for number in range(MAX_KNOWN + 10):
        senders.accept(b"%d" % number, Sender(Kind.PERSON, f"p{number}"))
    assert senders.of(b"0", "a").kind is Kind.STRANGER
    assert senders.of(b"%d" % MAX_KNOWN, "a").kind is Kind.PERSON


def test_one_sender_with_many_headers_forgets_its_own_and_nobody_elses() -> None:
    senders, parent = Senders(), Sender(Kind.MACHINE, "parent")
    senders.accept(HEADER.encode(), parent)
    for number in range(MAX_KNOWN + 10):
        senders.accept(b"%d" % number, Sender(Kind.PERSON, "p"))
    assert senders.of(HEADER.encode(), "a") == parent
    assert senders.of(b"0", "a").kind is Kind.STRANGER
    assert senders.of(b"%d" % (MAX_KNOWN + 9), "a").kind is Kind.PERSON
    senders.refuse(HEADER.encode())
    assert senders.of(HEADER.encode(), "a").kind is Kind.STRANGER


def test_a_caller_has_a_turn_from_its_authentication_on_but_not_while_its_body_is_read() -> None:
    seen: list[object] = []

    class Body:
        def read(self, size: int) -> bytes:
            seen.append(current())
            return b"body"

    all_turns = a_turn_each()
    SenderLog(Senders(), all_turns, "").accept(a_caller(Role.MEMBER))
    seen.append(current())
    assert BodyInput(Body()).read() == b"body"
    end()
    assert seen == [Turn(all_turns[Kind.PERSON], Sender(Kind.PERSON, "id-1")), None]
    assert current() is None
