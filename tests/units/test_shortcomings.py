"""A zone warns at start of each service that it reaches without TLS that checks names."""

from __future__ import annotations

from typing import Any

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


COMPLETE = {
    "build_plan_encryption_key": [KEY],
    "secret_encryption_key": KEY,
    "auth_strategy": "http_basic",
    "bind_host": "127.0.0.1",
}


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ({}, []),
        ({"build_plan_encryption_key": []}, ["This zone cannot seal"]),
        ({"secret_encryption_key": ""}, ["This zone has no secret_encryption_key"]),
        ({"auth_strategy": "noauth"}, ["auth_strategy is noauth"]),
        ({"bind_host": "0.0.0.0"}, ["This zone serves plain http on 0.0.0.0"]),
        ({"bind_host": "0.0.0.0", "tls_certificate_file": "zone.crt"}, []),
        ({"tls_certificate_file": "zone.crt"}, []),
    ],
)
def test_what_a_zone_lacks_is_said_at_its_start_and_nothing_else(
    lacks: dict[str, Any], said: list[str]
) -> None:
    lines = shortcomings(options.load((), {**COMPLETE, **lacks}))
    assert len(lines) == len(said)
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True))
