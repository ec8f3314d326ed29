"""Files that are whole or not there: written beside their place, then moved into it."""

import csv
import io
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path


def write(file: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, whoever else writes it at the same time."""
    part = file.with_name(f"{file.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def write_csv(file: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table of comma-separated values, its columns' names first."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    write(file, text.getvalue())
