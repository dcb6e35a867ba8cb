"""RabbitMQ without one: the certificate that amqps asks for, and messages that nobody has confirmed."""

from __future__ import annotations

from contextlib import closing
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from tests.builders.raw_server import Authority, Conversation, RawServer
from zonesched.broker import amqp
from zonesched.broker.amqp import _Unconfirmed
from zonesched.broker.contract import BOOTS, BrokerUnavailable
from zonesched.broker.opening import for_agent, open_broker

AMQP_HEADER = b"AMQP\x00\x00\x09\x01"


@pytest.mark.parametrize(
    ("host", "certified", "is_spoken_to"),
    [
        ("localhost", x509.DNSName("localhost"), True),
        ("localhost", x509.DNSName("other.example.org"), False),
        ("127.0.0.1", x509.IPAddress(ip_address("127.0.0.1")), True),
        ("127.0.0.1", x509.DNSName("localhost"), False),
    ],
)
def test_amqps_speaks_to_nobody_with_a_certificate_for_another_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    certified: x509.GeneralName,
    is_spoken_to: bool,
) -> None:
    # given
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    monkeypatch.setattr(amqp, "IO_TIMEOUT_S", 0.3)
    heard: list[bytes] = []

    def listen(peer: Conversation) -> None:
        heard.append(peer.read(len(AMQP_HEADER)))

    # when
    with (
        RawServer(listen, authority.server_context(certified)) as server,
        closing(
            open_broker(f"amqps://guest:guest@{host}:{server.port}//", "nova", for_agent("nova", "a"))
        ) as broker,
        pytest.raises(BrokerUnavailable),
    ):
        broker.publish([BOOTS])
    # then
    assert (AMQP_HEADER in heard) is is_spoken_to


def test_messages_are_confirmed_one_by_one_or_up_to_a_number() -> None:
    waiting = _Unconfirmed()
    for _ in range(5):
        waiting.add_next()
    waiting.confirm(2, multiple=False)
    waiting.confirm(4, multiple=True)
    assert waiting
    waiting.confirm(5, multiple=False)
    assert not waiting


def test_a_message_that_the_broker_refuses_was_not_sent() -> None:
    waiting = _Unconfirmed()
    waiting.add_next()
    with pytest.raises(BrokerUnavailable):
        waiting.refuse(1, multiple=False)
