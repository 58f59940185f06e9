"""The daemon's log: one JSON object a line, to standard error."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec


class JsonLogFormatter(logging.Formatter):
    """Writes a record as one line of JSON, a traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        """Time (UTC), level, logger, message; facts of a notice and a traceback, if any."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, object] = {
            "time": moment,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update(getattr(record, "facts", {}))
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry).decode()


def log_to_stderr(level: str) -> None:
    """Send what Dray logs at `level` or above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogFormatter())
    logger = logging.getLogger("dray")
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
