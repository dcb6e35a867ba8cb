"""Hints through a real RabbitMQ, which is killed, started again and hangs in the middle."""

from __future__ import annotations

import json
import re
import shlex
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import kombu
import pytest

from benchmarks.wake_ups import running
from tests.builders.private_servers import Server, rabbitmq
from tests.builders.real_processes import eventually, free_port
from zonesched.broker import amqp
from zonesched.broker.contract import (
    BOOTS,
    HOSTS,
    Broker,
    BrokerUnavailable,
    Event,
    Kind,
    Notification,
    key_of,
)
from zonesched.broker.opening import for_agent, for_process, open_broker

WORK = Notification(Kind.WORK, key_of("compute", "agent.1"))


def url(port: int) -> str:
    return f"amqp://guest:guest@127.0.0.1:{port}//"


class TestNoBroker:
    """A port without a broker and a broker that hangs cost the caller seconds at most."""

    @pytest.fixture
    def silent(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
        monkeypatch.setattr(amqp, "IO_TIMEOUT_S", 0.1)
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield server.getsockname()[1]

    def test_one_that_takes_the_connection_and_never_answers_is_away(self, silent: int) -> None:
        self.check_away(url(silent))

    def test_one_that_is_not_there_is_away(self) -> None:
        self.check_away(url(1))

    def test_one_without_the_tls_that_was_asked_for_is_away(self, silent: int) -> None:
        self.check_away(url(silent).replace("amqp:", "amqps:"))

    @staticmethod
    def check_away(url: str) -> None:
        with closing(open_broker(url, "nova", for_agent("nova", "agent"))) as broker:
            started_at = time.monotonic()
            for call in (lambda: broker.publish([BOOTS]), lambda: broker.receive(0.1)):
                with pytest.raises(BrokerUnavailable) as away:
                    call()
                assert "guest" not in str(away.value)
            assert time.monotonic() - started_at < 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with rabbitmq(tmp_path_factory.mktemp("broker") / "rabbitmq") as server:
        # Only a zone makes what its agents listen to.
        with closing(open_broker(url(server.port), "nova", for_process("nova", "a:0"))) as zone:
            zone.receive(0.1)
        yield server


@pytest.mark.slow
class TestRabbitMq:
    def test_each_hears_what_is_for_it(self, server: Server) -> None:
        one, two = (open_broker(url(server.port), "nova", for_process("nova", p)) for p in ("a:1", "b:1"))
        agent = open_broker(url(server.port), "nova", for_agent("nova", "agent.1"))
        other = open_broker(url(server.port), "nova", for_agent("nova", "agent.2"))
        elsewhere = open_broker(url(server.port), "other zone", for_process("other zone", "a:1"))
        everybody = (one, two, agent, other, elsewhere)
        assert [broker.receive(5) for broker in everybody] == [[Kind.MISSED]] * 5

        one.publish([HOSTS, WORK, Notification(Kind.BOOTS, key_of("scheduler", "b:1"))])
        one.publish([BOOTS])

        heard = all_heard(everybody, 5)
        for broker in everybody:
            broker.close()
        assert heard[2:] == [[Kind.WORK], [], []]
        assert [kinds.count(Kind.HOSTS) for kinds in heard[:2]] == [1, 1]
        assert heard[1].count(Kind.BOOTS) >= 1
        assert sum(kinds.count(Kind.BOOTS) for kinds in heard) == 2

    def test_an_event_reaches_whoever_has_bound_a_queue_and_nobody_else(self, server: Server) -> None:
        said = {"event_type": "instance.create.end", "name": "\u00e4"}
        event = Event("notifications.info", json.dumps(said, ensure_ascii=False))
        with (
            closing(open_broker(url(server.port), "nova", for_process("nova", "a:1"))) as zone,
            kombu.Connection(url(server.port)) as consumer,
        ):
            zone.receive(5)
            zone.publish([event])
            exchange = kombu.Exchange("nova", "topic")
            queue = kombu.Queue("bills", exchange, "notifications.info", exclusive=True)
            bound = queue(consumer.default_channel)
            bound.declare()
            zone.publish([event, HOSTS])
            message = bound.get(no_ack=True)

            assert message is not None
            assert (message.content_type, json.loads(message.body)) == ("application/json", said)
            assert bound.get(no_ack=True) is None
            assert all_heard([zone], 1) == [[Kind.HOSTS]]

    def test_an_agent_with_the_permissions_of_the_guide_hears_what_is_for_it_and_nothing_else(
        self, server: Server
    ) -> None:
        guide = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
        server.control("add_vhost", "zone-1")
        server.control("set_permissions", "-p", "zone-1", "guest", ".*", ".*", ".*")
        server.control("add_user", "agent", "secret")
        for line in re.findall(r"^rabbitmqctl (.*)$", guide.replace("\\\n", ""), re.MULTILINE):
            server.control(*shlex.split(line))
        of_agent = f"amqp://agent:secret@127.0.0.1:{server.port}/zone-1"
        of_zone = f"amqp://guest:guest@127.0.0.1:{server.port}/zone-1"
        own = Notification(Kind.WORK, key_of("compute", "agent"))
        with (
            closing(open_broker(of_zone, "nova", for_process("nova", "a:1"))) as zone,
            closing(open_broker(of_agent, "nova", for_agent("nova", "agent"))) as agent,
        ):
            zone.receive(5)
            agent.receive(5)
            zone.publish([own])
            assert all_heard([agent], 1) == [[Kind.WORK]]
            with pytest.raises(BrokerUnavailable):
                agent.publish([own])

            queue, topic = "nova.compute.agent", kombu.Exchange("nova", "topic")
            for key in ("#", "notifications.info", "compute.other"):
                with (
                    kombu.Connection(of_agent) as attacker,
                    pytest.raises(attacker.channel_errors, match="ACCESS_REFUSED"),
                ):
                    kombu.Queue(queue, topic, key)(attacker.default_channel).queue_bind()
            for exchange in ("nova", "nova.scheduler_fanout"):
                with (
                    kombu.Connection(of_agent) as attacker,
                    pytest.raises(attacker.channel_errors, match="ACCESS_REFUSED"),
                ):
                    attacker.default_channel.exchange_delete(exchange)

    def test_a_message_that_is_no_hint_is_passed_over(self, server: Server) -> None:
        with closing(amqp.AmqpBroker(url(server.port), "nova", for_agent("nova", "agent.1"))) as agent:
            agent.receive(1)
            agent.publish([WORK])
            producer = agent._publishing
            assert producer is not None
            for body in ({"json": 1}, b"\xff\xfe", "", "reboot"):
                producer.publish(body, exchange="nova", routing_key=WORK.key)
            for packed in ("zlib", "bogus"):
                said = {"compression": packed}
                producer.publish("work", exchange="nova", routing_key=WORK.key, headers=said)
            producer.publish("work", exchange="nova", routing_key=WORK.key, content_type="text/plain")

            # One queue keeps the order: whoever heard the last has heard all before it.
            assert all_heard([agent], 2) == [[Kind.WORK, Kind.WORK]]

    def test_a_flood_of_messages_is_received_in_pieces(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with closing(open_broker(url(server.port), "nova", for_agent("nova", "agent.1"))) as agent:
            agent.receive(1)
            agent.publish([WORK] * 50)
            monkeypatch.setattr(amqp, "MAX_MESSAGES", 10)
            pieces: list[int] = []

            def has_all() -> bool:
                # The last ones may still be on their way.
                pieces.append(len(agent.receive(1)))
                return sum(pieces) == 50

            eventually("it hears all", has_all)
        assert max(pieces) == 10

    def test_a_listener_hears_again_once_what_it_listens_to_was_deleted(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(amqp, "DECLARED_EACH", 2)
        with (
            closing(open_broker(url(server.port), "nova", for_process("nova", "a:1"))) as zone,
            kombu.Connection(url(server.port)) as admin,
        ):
            zone.receive(1)
            for exchange in ("nova", "nova.scheduler_fanout"):
                admin.default_channel.exchange_delete(exchange)

            def hears() -> bool:
                publishes(zone, HOSTS)
                return Kind.HOSTS in zone.receive(0.1)

            eventually("it hears", hears)

    def test_a_listener_whose_broker_has_gone_without_a_word_finds_out(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(amqp, "IO_TIMEOUT_S", 0.5)
        monkeypatch.setattr(amqp, "DECLARED_EACH", 2)
        with closing(open_broker(url(server.port), "nova", for_agent("nova", "agent.1"))) as broker:
            broker.receive(1)
            server.hang()
            try:
                with pytest.raises(BrokerUnavailable):
                    for _ in range(2):
                        broker.receive(0.1)
            finally:
                server.go_on()
            eventually("it publishes again", lambda: publishes(broker), timeout_s=20)

    def test_one_that_hangs_and_fills_up_is_away_and_comes_back(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(amqp, "IO_TIMEOUT_S", 0.5)
        with closing(open_broker(url(server.port), "nova", for_agent("nova", "agent.1"))) as broker:
            broker.receive(1)
            broker.publish([WORK])
            server.hang()
            try:
                started_at = time.monotonic()
                with pytest.raises(BrokerUnavailable):
                    # More than the sockets between the two hold.
                    broker.publish([WORK] * 100_000)
                assert time.monotonic() - started_at < 15
            finally:
                server.go_on()
            eventually("it publishes again", lambda: publishes(broker), timeout_s=20)

    def test_one_that_blocks_publishers_is_told_by_its_reason_and_keeps_one_connection(
        self, server: Server
    ) -> None:
        broker = amqp.AmqpBroker(url(server.port), "nova", for_agent("nova", "agent.1"))
        with closing(broker):
            broker.receive(1)
            broker.publish([WORK])
            connected = broker._publishing
            server.control("set_vm_memory_high_watermark", "absolute", "1MiB")
            try:
                eventually("it is blocked", lambda: not publishes(broker))
                with pytest.raises(BrokerUnavailable, match="for want of memory or disk"):
                    broker.publish([WORK])
            finally:
                server.control("set_vm_memory_high_watermark", "0.6")
            eventually("it publishes again", lambda: publishes(broker))

            assert broker._publishing is connected

    def test_a_message_that_is_only_in_the_connection_was_not_sent(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(amqp, "IO_TIMEOUT_S", 0.5)
        with closing(open_broker(url(server.port), "nova", for_agent("nova", "agent.1"))) as broker:
            broker.publish([WORK])
            server.hang()
            try:
                with pytest.raises(BrokerUnavailable):
                    broker.publish([WORK])
            finally:
                server.go_on()
            eventually("it publishes again", lambda: publishes(broker), timeout_s=20)

    def test_a_zone_and_its_agent_go_on_whatever_it_does(self, server: Server, tmp_path: Path) -> None:
        poll_s = 6.0
        with running(tmp_path, free_port(), url(server.port), poll_s) as zone:

            def is_told() -> bool:
                heard = zone.metric("zonesched_notifications_sent_total")
                return zone.boot() < poll_s / 3 and zone.metric("zonesched_notifications_sent_total") > heard

            eventually("the agent is told", is_told, timeout_s=30)

            server.hang()
            asked_at = time.monotonic()
            hung = zone.accept()
            accepted_in_s = time.monotonic() - asked_at
            zone.active_in(hung)
            server.kill()
            zone.active_in(zone.accept())
            eventually("a hint is dropped", lambda: zone.metric("zonesched_notifications_dropped_total") >= 1)
            server.start()
            eventually("the agent is told again", is_told, timeout_s=60)

        assert accepted_in_s < 2


def all_heard(brokers: Sequence[Broker], count: int) -> list[list[Kind]]:
    """Receive until `count` hints have come to `brokers` together, and then no more; the hints of each."""
    heard: list[list[Kind]] = [[] for _ in brokers]

    def receive() -> None:
        for broker, kinds in zip(brokers, heard, strict=True):
            kinds += broker.receive(0.1)

    def have_come() -> bool:
        receive()
        return sum(map(len, heard)) >= count

    eventually(f"{count} hints have come", have_come)
    receive()
    return heard


def publishes(broker: Broker, message: Notification = WORK) -> bool:
    try:
        broker.publish([message])
    except BrokerUnavailable:
        return False
    return True
