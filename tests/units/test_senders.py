"""A sender is known by credentials that were accepted once."""

from __future__ import annotations

from zonesched.model.caller import Caller, Role
from zonesched.model.sender import Kind, Sender
from zonesched.serving.body_input import SenderLog
from zonesched.serving.senders import MAX_KNOWN, Senders

HEADER = "Basic cGFyZW50OnNlY3JldA=="


def a_caller(role: Role) -> Caller:
    return Caller("id-1", "name", role, "p")


def test_an_address_is_two_strangers_one_with_unproven_credentials() -> None:
    senders = Senders()
    unproven, nobody = senders.of(HEADER.encode(), "192.0.2.1"), senders.of(b"", "192.0.2.1")
    assert unproven == senders.of(b"Basic other", "192.0.2.1")
    assert nobody == Sender(Kind.STRANGER, "192.0.2.1")
    assert unproven.kind is Kind.STRANGER
    assert len({unproven, nobody, senders.of(b"", "192.0.2.2")}) == 3


def test_a_parent_and_an_agent_are_machines_once_accepted() -> None:
    for role, kind in ((Role.PARENT, Kind.MACHINE), (Role.COMPUTE, Kind.MACHINE), (Role.MEMBER, Kind.PERSON)):
        senders = Senders()
        SenderLog(senders, HEADER).accept(a_caller(role))
        assert senders.of(HEADER.encode(), "192.0.2.1") == Sender(kind, "id-1")
        assert senders.of(b"Basic other", "192.0.2.1").kind is Kind.STRANGER


def test_a_header_that_is_refused_is_forgotten() -> None:
    senders = Senders()
    log = SenderLog(senders, HEADER)
    log.accept(a_caller(Role.PARENT))
    log.refuse()
    assert senders.of(HEADER.encode(), "192.0.2.1").kind is Kind.STRANGER


def test_without_a_header_nobody_becomes_known() -> None:
    senders = Senders()
    SenderLog(senders, "").accept(a_caller(Role.ADMIN))
    assert senders.of(b"", "192.0.2.1").kind is Kind.STRANGER


def test_the_oldest_of_too_many_are_forgotten() -> None:
    senders = Senders()
    for number in range(MAX_KNOWN + 10):
        senders.accept(b"%d" % number, Sender(Kind.PERSON, "p"))
    assert senders.of(b"0", "a").kind is Kind.STRANGER
    assert senders.of(b"%d" % MAX_KNOWN, "a").kind is Kind.PERSON
