"""The audit log: a file with one JSON object per line for each write and each refused call.

It says who called, in which role and from where, what was called, and how that ended.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from zonesched.errors import ConfigError

log = logging.getLogger(__name__)

READS = frozenset({"GET", "HEAD", "OPTIONS"})

UNSEEN = frozenset({"/hosts/beat", "/zones/select"})
"""Calls of machines by POST that change nothing an operator asks about; their refusals are kept."""


@dataclass(frozen=True)
class AuditEntry:
    """One call. `role` is "" where nobody was authenticated: `user` is then only what the caller claims.

    `action`: which one, for a call that takes one of several; `code`: the stable code of a refusal, ""
    without one. `time`: UTC, ISO 8601.
    """

    time: str
    request_id: str
    user: str
    role: str
    project_id: str
    address: str
    method: str
    path: str
    action: str
    status: int
    code: str


def is_kept(method: str, route: str, status: int) -> bool:
    """Tell whether a call belongs into the audit log: a write, or one that was refused."""
    return status in (401, 403, 429) or (method not in READS and route not in UNSEEN)


class AuditLog:
    """Appends to a file of mode 0600, opened for each line: one that was moved away is made again."""

    def __init__(self, path: str) -> None:
        self._path = path
        if path:
            try:
                self._append(b"")
            except OSError as error:
                raise ConfigError(
                    f"Option audit_log: {path} cannot be written: {error.strerror}.", field="audit_log"
                ) from error

    @property
    def is_on(self) -> bool:
        """Tell whether there is a file."""
        return bool(self._path)

    def write(self, entry: AuditEntry) -> None:
        """Append one line, if there is a file; the call is answered also where that fails."""
        if self._path:
            try:
                self._append(json.dumps(asdict(entry), ensure_ascii=True).encode() + b"\n")
            except OSError as error:
                log.error("the audit log cannot be written: %s", error.strerror)

    def _append(self, line: bytes) -> None:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # One write: lines of several threads and processes do not mix. After a part of a line, as a full
            # disk leaves it to whoever writes next, a new one begins.
            whole = b"\n" + line if _ends_torn(file) else line
            if os.write(file, whole) < len(whole):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(file)


def _ends_torn(file: int) -> bool:
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def timestamp(now: float) -> str:
    """Return epoch seconds as the log has them."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
