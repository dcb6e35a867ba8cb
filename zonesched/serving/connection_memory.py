"""Memory that callers may take: long bodies that the loop receives, and answers that nobody has read yet."""

from __future__ import annotations

from zonesched.model.byte_budget import ByteBudget
from zonesched.model.sender import Kind
from zonesched.serving.connection import Connection

MIB = 2**20
BODY_BYTES = 128 * MIB
BODY_BYTES_OF = {Kind.STRANGER: 0, Kind.PERSON: 16 * MIB, Kind.MACHINE: 64 * MIB}
"""Budgets of the long bodies that the loop receives, by kind of sender."""
ANSWER_BYTES = 128 * MIB
ANSWER_BYTES_OF = {Kind.STRANGER: 4 * MIB, Kind.PERSON: 16 * MIB, Kind.MACHINE: 64 * MIB}
"""Budgets of the answers that callers have not read yet, by kind of sender."""


class ConnectionMemory:
    """Budgets of one process, by sender; used by the loop's thread alone."""

    def __init__(self) -> None:
        self._bodies = ByteBudget(BODY_BYTES, BODY_BYTES_OF)
        self._answers = ByteBudget(ANSWER_BYTES, ANSWER_BYTES_OF)

    @property
    def held(self) -> int:
        """Bytes that are taken now."""
        return self._bodies.held + self._answers.held

    def may_hold_body(self, conn: Connection, size: int) -> bool:
        """Tell whether a body of this size would fit while its sender has no other."""
        return self._bodies.is_ever_enough(conn.sender, size)

    def hold_body(self, conn: Connection, size: int) -> bool:
        """Take memory for a connection's body; return false if there is too little."""
        if size and not self._bodies.take(conn.sender, size):
            return False
        conn.body_bytes = size
        return True

    def hold_answer(self, conn: Connection, size: int) -> bool:
        """Take memory for the unread rest of an answer; return false if there is too little."""
        if not self._answers.take(conn.sender, size):
            return False
        conn.answer_bytes = size
        return True

    def release_body(self, conn: Connection) -> None:
        """Give back the memory of a connection's body, if it has any."""
        if conn.body_bytes:
            self._bodies.give_back(conn.sender, conn.body_bytes)
            conn.body_bytes = 0

    def release_answer(self, conn: Connection) -> None:
        """Give back the memory of a connection's answer, if it has any."""
        if conn.answer_bytes:
            self._answers.give_back(conn.sender, conn.answer_bytes)
            conn.answer_bytes = 0
