"""Open the broker that a URL names, and list the queues of each listener."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.broker.contract import COMPUTE, SCHEDULER, Broker, NoBroker, Subscription, key_of


def for_process(zone_name: str, process: str) -> Sequence[Subscription]:
    """List the queues of a process of a zone: for any process, for this one, and for all."""
    own = key_of(SCHEDULER, process)
    return [
        Subscription(f"{zone_name}.{SCHEDULER}", SCHEDULER),
        Subscription(f"{zone_name}.{own}", own),
        Subscription(f"{zone_name}.{key_of('scheduler_fanout', process)}", SCHEDULER, to_all=True),
    ]


def for_agent(zone_name: str, service: str) -> Sequence[Subscription]:
    """List the queues of a compute agent: notifications of work for its hosts."""
    key = key_of(COMPUTE, service)
    return [Subscription(f"{zone_name}.{key}", key, makes_exchange=False)]


def open_broker(url: str, zone_name: str, subscriptions: Sequence[Subscription]) -> Broker:
    """Return the broker at a URL that has been checked; "" is none. Nothing is connected yet."""
    if not url:
        return NoBroker()
    # Here alone: what it imports is installed only where there is a broker.
    from zonesched.broker.amqp import AmqpBroker  # noqa: PLC0415

    return AmqpBroker(url, zone_name, subscriptions)
