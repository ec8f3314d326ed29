"""Files that are whole or not there: written beside their place, then moved into it."""

import os
import uuid
from pathlib import Path


def write(file: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, whoever else writes it at the same time."""
    part = file.with_name(f"{file.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
