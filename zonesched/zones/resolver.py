"""Look-up of names with a time limit, which the system's own call does not have."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

Resolver = Callable[[str, float], Sequence[str]]
"""(name, timeout in seconds) -> addresses as text. Raises OSError, of which TimeoutError is one."""


class SystemResolver:
    """The system's look-up; a name that hangs ties up one thread, however many callers wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Future[list[str]]] = {}

    def __call__(self, name: str, timeout_s: float) -> list[str]:
        with self._lock:
            future = self._running.get(name)
            if future is None:
                future = self._running[name] = Future()
                threading.Thread(target=self._look_up, args=(name, future), daemon=True).start()
        return future.result(timeout=max(0.0, timeout_s))

    def _look_up(self, name: str, future: Future[list[str]]) -> None:
        found: list[str] | OSError
        try:
            found = [
                str(address[0]) for *_, address in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            ]
        except Exception:
            found = OSError("the name cannot be resolved")
        with self._lock:
            del self._running[name]
        if isinstance(found, OSError):
            future.set_exception(found)
        else:
            future.set_result(found)
