"""Logs: JSON lines on standard error, without keys and bodies."""

import logging
import re
import sys
import time
from typing import Any

import msgspec

LEVELS = ("debug", "info", "warning", "error")
SUBJECT = "/v1/subjects/"

_KEY = re.compile(r"syn_[\w-]+")


class Lines(logging.Formatter):
    """A record as one line of JSON: time, level, message, and what the record brings under `fields`."""

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
    """Send all logs of this process to standard error, from this level up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def safe(path: str) -> str:
    """A path as logs may have it: no person's name, and no key that somebody put there by mistake."""
    return SUBJECT + "..." if path.startswith(SUBJECT) else path
