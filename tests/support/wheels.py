"""Wheels, built as a release builds them."""

import shutil
import subprocess
import sys
from pathlib import Path

LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "results", "*.egg-info")


def built_wheel(project: Path, folder: Path) -> Path:
    """The wheel of a project, built in `folder` from a copy: no old files of the checkout get into it."""
    copy = shutil.copytree(project, folder / "project", ignore=LEFT_OUT)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return file
