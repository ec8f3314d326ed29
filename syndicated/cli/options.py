"""What commands share: reading --set, and the console for tables."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from syndicated._extras import extra
from syndicated.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console


URL = "SYNDICATED_URL"  # the environment variable with that of a service
DEFAULT_URL = "http://127.0.0.1:8000"
TASKS_ARE_KEPT = "finished tasks are kept, the same command goes on"


def settings_of(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The values of --set, by what they set: the space, or arguments of the policy, tuner or environment."""
    settings: dict[str, dict[str, Any]] = {"space": {}, "policy": {}, "tuner": {}, "environment": {}}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        kind, dot, argument = name.rpartition(".")
        kind = kind if dot else "space"
        if not equals or not argument or kind not in settings:
            raise InputError(f"--set takes NAME=VALUE with NAME as alpha or policy.intercept; got {pair!r}")
        values = [_value(part) for part in text.split(",")]
        settings[kind][argument] = values if kind == "space" or len(values) > 1 else values[0]
    return settings


def _value(text: str) -> Any:
    """A number, true, false or null as JSON has them, otherwise the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def console() -> "Console":
    """The console for tables: as wide as the terminal, or wide enough for all tables in a file or a pipe."""
    with extra("experiments", "a table"):
        from rich.console import Console
    return Console(width=None if sys.stdout.isatty() else 140)
