"""The service's own logs: JSON lines on standard error, without keys, bodies and subjects."""

import logging
import re
import sys
import time
from typing import Any

import msgspec

LEVELS = ("debug", "info", "warning", "error")
SUBJECTS_PATH = "/v1/subjects/"

_KEY = re.compile(r"syn_[\w-]+")


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time, level, message, and the record's `fields`. Keys in it are masked."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return _KEY.sub("syn_...", msgspec.json.encode(line).decode())


def set_up(level: str) -> None:
    """Send the logs of this process to standard error, from this level up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def loggable_path(path: str) -> str:
    """A path without the subject in it, which may be a person's name."""
    return SUBJECTS_PATH + "..." if path.startswith(SUBJECTS_PATH) else path
