"""A zone warns at start of each service that it reaches without TLS that checks names."""

from __future__ import annotations

import pytest

from zonesched import conf as options
from zonesched.seal.shortcomings import shortcomings

KEY = "ab" * 32
POSTGRESQL = "postgresql+psycopg://zone:secret@db.example.org/zone"


def warned_of(**overrides: str) -> list[str]:
    keys = {"build_plan_encryption_key": [KEY], "secret_encryption_key": KEY}
    lines = shortcomings(options.load((), {**keys, "allow_unverified_services": True, **overrides}))
    assert not any("secret@" in line for line in lines)
    return [line.partition(" is not protected")[0].split()[-1] for line in lines]


@pytest.mark.parametrize(
    ("option", "url", "is_warned"),
    [
        ("transport_url", "amqp://zone:secret@broker.example.org:5672//", True),
        ("transport_url", "amqps://zone:secret@broker.example.org:5671//", False),
        ("transport_url", "amqp://zone:secret@127.0.0.1:5672//", False),
        ("servicegroup_driver", "redis://:secret@redis.example.org:6379", True),
        ("servicegroup_driver", "redis://:secret@127.0.0.1:6379", False),
        ("servicegroup_driver", "db", False),
        ("database_url", POSTGRESQL, False),
        ("database_url", POSTGRESQL + "?sslmode=require", True),
        ("database_url", POSTGRESQL + "?sslmode=verify-full", False),
        ("database_url", "sqlite:///zone.sqlite", False),
    ],
)
def test_a_service_on_the_network_without_verified_tls_is_named(
    option: str, url: str, is_warned: bool
) -> None:
    assert warned_of(**{option: url}) == ([option] if is_warned else [])
