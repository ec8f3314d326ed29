"""Files that are complete or absent: written to a temporary name beside the target, then renamed."""

import csv
import io
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path


def write(file: Path, content: str | bytes) -> None:
    """Write a file completely or not at all, also if others write it at the same time."""
    part = file.with_name(f"{file.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def write_csv(file: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table of comma-separated values with a header."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    write(file, text.getvalue())
