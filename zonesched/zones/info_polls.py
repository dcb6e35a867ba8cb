"""Polls of children: each tells about itself and its child zones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from zonesched.seams import Clock, Done, Executor, Failed, Late
from zonesched.zones.answer_room import AnswerHand, AnswerRoom
from zonesched.zones.call import Reply, Take
from zonesched.zones.child import Child, ChildInfo, Ready
from zonesched.zones.client import ChildClient, Question
from zonesched.zones.edge_metrics import EdgeMetrics
from zonesched.zones.fan_out import Exchange, exchange, health_bulkhead
from zonesched.zones.known_child import KnownChild
from zonesched.zones.poll_turns import share, turns_of
from zonesched.zones.transport import Transport

KEPT_BYTES = 16 * 1024
"""Maximum size of an info whose text is kept: most are a tenth of it."""

ClientOf = Callable[[Child, Take], ChildClient]


class InfoPolls:
    """Reads the info of each child; a text that has not changed since the last poll is not parsed again."""

    def __init__(
        self,
        executor: Executor,
        clock: Clock,
        transport: Transport,
        room: AnswerRoom,
        edges: EdgeMetrics,
        client_of: ClientOf,
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._transport = transport
        self._room = room
        self._edges = edges
        self._client_of = client_of
        self._last: dict[str, tuple[Reply, ChildInfo]] = {}
        self._turn = 0
        self.turns = 1

    @property
    def begins_round(self) -> bool:
        """Tell whether all children were polled as often as each other."""
        return self._turn == 0

    def next_turn(self, known: Sequence[KnownChild]) -> list[KnownChild]:
        """Return the children whose turn it is, each once in `turns`; the first has all that are not ready.

        So one that does not answer holds up one turn alone.
        """
        is_first = self.begins_round
        if is_first:
            self.turns = turns_of(len(known))
        ids = {one.child.id for one in share(known, self._turn, self.turns)}
        self._turn = (self._turn + 1) % self.turns
        return [one for one in known if (one.child.id in ids if isinstance(one.status, Ready) else is_first)]

    def ask(self, children: Sequence[Child], timeout_s: float) -> list[Done[ChildInfo] | Failed | Late]:
        """Poll each of these once, concurrently; one outcome each, in their order."""
        exchanges = [self._exchange(child) for child in children]
        return exchange(self._executor, self._clock, self._transport, exchanges, timeout_s)

    def forget(self, known: Iterable[str]) -> None:
        """Drop the texts of children that are no longer registered, by their ids."""
        for child_id in self._last.keys() - set(known):
            self._last.pop(child_id, None)

    def _exchange(self, child: Child) -> Exchange[ChildInfo]:
        hand = AnswerHand("")
        question = self._client_of(child, partial(self._room.take, hand, child.id)).ask_info()

        def ended(seconds: float) -> None:
            self._room.release(hand)
            self._edges.took(child.name, "poll", seconds)

        return Exchange(
            health_bulkhead(child.id), question.bound, partial(self._read, child.id, question), ended
        )

    def _read(self, child_id: str, question: Question[ChildInfo], reply: Reply) -> ChildInfo:
        last = self._last.get(child_id)
        if last is not None and (last[0].status, last[0].body) == (reply.status, reply.body):
            return last[1]
        info = question.read(reply)
        if len(reply.body) <= KEPT_BYTES:
            self._last[child_id] = reply, info
        return info
