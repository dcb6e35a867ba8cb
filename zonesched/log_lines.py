"""Format of log lines: one line per record, as key=value or JSON, with the ids of its request and boot."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from functools import lru_cache

from zonesched import tracing

FORMATS = ("text", "json")
_PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f\x7f]+")


class JsonLines(logging.Formatter):
    """Formats each record as one JSON object on a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(fields(self, record), ensure_ascii=True)


class KeyValueLines(logging.Formatter):
    """Formats each record as key=value pairs; values are quoted as in JSON where needed."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(value)}" for key, value in fields(self, record).items())


def fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, str]:
    """Return the fields of a log line; `error` has the traceback of an exception."""
    trace = tracing.current()
    found = {
        "time": f"{_second(int(record.created))}.{int(record.created % 1 * 1000):03d}Z",
        "level": record.levelname,
        "logger": record.name,
        "request_id": trace.request_id,
        "reservation_id": trace.reservation_id,
        "message": record.getMessage(),
        "error": formatter.formatException(record.exc_info) if record.exc_info else "",
    }
    return {key: value for key, value in found.items() if value}


@lru_cache(maxsize=2)
def _second(at: int) -> str:
    """Return epoch seconds as ISO 8601: most lines come many to a second."""
    return datetime.fromtimestamp(at, UTC).isoformat().removesuffix("+00:00")


def set_up(log_format: str, level: str = "INFO") -> None:
    """Write the log lines of this process from a level up to standard error, in one of FORMATS."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format == "json" else KeyValueLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Too much of their own at lower levels.
    for name in ("alembic", "urllib3", "sqlalchemy"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=True)
