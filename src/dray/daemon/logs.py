"""The daemon's log: one JSON object a line, to standard error."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec

from dray.model.files import name_as_text


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
        # A name may have bytes that are no UTF-8, and JSON takes none of those.
        shown = {
            key: name_as_text(each) if isinstance(each, str) else each
            for key, each in entry.items()
        }
        return msgspec.json.encode(shown).decode()


def log_to_stderr(level: str) -> None:
    """Send what Dray logs at `level` or above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogFormatter())
    logger = logging.getLogger("dray")
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
