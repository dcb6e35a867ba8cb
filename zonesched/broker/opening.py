"""Who listens to what, and the broker that a URL names."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.broker.contract import COMPUTE, SCHEDULER, Broker, Listens, NoBroker, key_of


def for_process(zone_name: str, process: str) -> Sequence[Listens]:
    """What a process of a zone hears: what is for any process, for this one, and for all."""
    own = key_of(SCHEDULER, process)
    return [
        Listens(f"{zone_name}.{SCHEDULER}", SCHEDULER),
        Listens(f"{zone_name}.{own}", own),
        Listens(f"{zone_name}.{key_of('scheduler_fanout', process)}", SCHEDULER, to_all=True),
    ]


def for_agent(zone_name: str, service: str) -> Sequence[Listens]:
    """What a compute agent hears: that there is work for one of its hosts."""
    key = key_of(COMPUTE, service)
    return [Listens(f"{zone_name}.{key}", key)]


def open_broker(url: str, zone_name: str, listens: Sequence[Listens]) -> Broker:
    """The broker at a URL that has been checked; "" is none. Nothing is connected yet."""
    if not url:
        return NoBroker()
    # Here alone: what it imports is installed only where there is a broker.
    from zonesched.broker.amqp import AmqpBroker  # noqa: PLC0415

    return AmqpBroker(url, zone_name, listens)
