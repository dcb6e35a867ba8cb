"""A service group in Redis, memcached, ZooKeeper or etcd, by tooz; it reconnects after each failure."""

from __future__ import annotations

import hashlib
import logging
import math
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from tooz import coordination

from zonesched.service_group.contract import GroupUnavailable

# Logs a line for each of its tries, several a second; what came of them is in our own error.
logging.getLogger("kazoo").setLevel(logging.CRITICAL)

IO_TIMEOUT_S = 3
"""Longest wait for an answer; a whole number."""


class ToozGroup:
    """`zonesched.service_group.contract.ServiceGroup` by tooz."""

    is_there = True

    def __init__(self, url: str, group: str, member: str, lives_s: float) -> None:
        self._url = _for_tooz(url, lives_s)
        self._group = group.encode()
        # Redis and memcached keep one heartbeat for each name, whatever its group: an agent of another zone
        # with the same name would keep this one's dead agent up.
        # A short part of a name: memcached takes keys of 250 bytes.
        self._prefix = f"{hashlib.sha256(self._group).hexdigest()[:16]}."
        self._member = f"{self._prefix}{member}".encode()
        self._coordinator: Any = None

    def beat(self) -> None:
        try:
            coordinator = self._connected()
            coordinator.heartbeat()
            # Each time: a server that was restarted has lost its members, and drops those whose heartbeats
            # are too old.
            self._ensure_group()
            with suppress(coordination.MemberAlreadyExist):
                coordinator.join_group(self._group).get(IO_TIMEOUT_S)
        except Exception as error:
            raise self._unavailable(error) from error

    def members(self) -> frozenset[str]:
        try:
            coordinator = self._connected()
            try:
                found = coordinator.get_members(self._group).get(IO_TIMEOUT_S)
            except coordination.GroupNotCreated:
                return frozenset()
        except Exception as error:
            raise self._unavailable(error) from error
        return frozenset(one.decode(errors="replace").removeprefix(self._prefix) for one in found)

    def close(self) -> None:
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            with suppress(Exception):
                coordinator.stop()

    def _connected(self) -> Any:
        if self._coordinator is None:
            coordinator = coordination.get_coordinator(self._url, self._member)
            if urlsplit(self._url).scheme == "redis":
                _without_pauses(coordinator)
            coordinator.start(start_heart=False)
            self._coordinator = coordinator
        return self._coordinator

    def _ensure_group(self) -> None:
        with suppress(coordination.GroupAlreadyExist):
            self._coordinator.create_group(self._group).get(IO_TIMEOUT_S)

    def _unavailable(self, error: Exception) -> GroupUnavailable:
        # tooz raises what its drivers' own clients raise as well.
        self.close()
        # Some of its errors say nothing themselves.
        why = str(error) or str(error.__cause__ or error.__context__ or "no answer")
        return GroupUnavailable(f"{type(error).__name__}: {why[:200]}")


def _without_pauses(coordinator: Any) -> None:
    """Report a lost connection, a refused password or certificate at once, and silence after a time-out.

    tooz's driver tries 15 times by itself, and its client several times, with pauses, for each of them:
    together a minute. tooz has no option for that of the client.
    """
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.retry import Retry  # noqa: PLC0415

    make_client = coordinator._make_client

    def make(*args: Any) -> Any:
        client = make_client(*args)
        sentinel = getattr(client.connection_pool, "sentinel_manager", None)
        for one in [client, *(sentinel.sentinels if sentinel else [])]:
            one.set_retry(Retry(NoBackoff(), 0))
        return client

    coordinator._make_client = make


def _for_tooz(url: str, lives_s: float) -> str:
    """Return the URL in tooz's form, with our time-outs unless it has its own."""
    parts = urlsplit(url)
    # Its drivers for memcached and etcd take whole numbers alone.
    queries = [urlencode({"timeout": IO_TIMEOUT_S, "membership_timeout": math.ceil(lives_s)}), parts.query]
    if parts.scheme in ("redis", "rediss"):
        # Its client has time-outs of its own; a thread of the driver's would outlive a connection that fails.
        queries.insert(0, urlencode({"executor": "synchronous"}))
    if parts.scheme == "rediss":
        # tooz has no such scheme. The last value of a parameter counts.
        parts = parts._replace(scheme="redis")
        has_sentinel = "sentinel" in parse_qs(parts.query)
        queries.append(urlencode({"ssl": True, **({"sentinel_ssl": True} if has_sentinel else {})}))
    return urlunsplit(parts._replace(query="&".join(filter(None, queries))))
