"""Connections of requests whose exchanges end in time, however slowly the zone sends.

The time-outs of requests and urllib3 start again with each byte, so a zone or a proxy that sends one now and
then would hold its caller for ever.
"""

from __future__ import annotations

import socket
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.ssl_ import create_urllib3_context

from zonesched.deadline_socket import Deadline, DeadlineSocket, DeadlineTlsSocket
from zonesched.seams import SuspendAwareClock


class TimedAdapter(HTTPAdapter):
    """Sends requests; `timeout` bounds the connection, and then the whole exchange."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        context = create_urllib3_context()
        context.sslsocket_class = DeadlineTlsSocket
        super().init_poolmanager(*args, ssl_context=context, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}


class _Timed(HTTPConnection):
    """Base of both kinds of connection."""

    def connect(self) -> None:
        super().connect()
        self._begin()

    def request(self, *args: Any, **kwargs: Any) -> None:
        self._begin()
        super().request(*args, **kwargs)

    def _new_conn(self) -> socket.socket:
        plain = super()._new_conn()
        timed = DeadlineSocket(plain.family, plain.type, plain.proto, plain.detach())
        timed.settimeout(self.timeout)
        return timed

    def _begin(self) -> None:
        if isinstance(self.sock, DeadlineSocket | DeadlineTlsSocket) and self.timeout is not None:
            self.sock.deadline = Deadline(SuspendAwareClock(), self.timeout)


class _TlsTimed(_Timed, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Timed


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsTimed
