"""`syndicated quickstart`: a runnable example in a folder."""

import argparse
from pathlib import Path

from syndicated.errors import InputError

FILE = "first_agent.py"
EXAMPLE = Path(__file__).with_name("quickstart.txt")  # a program of the user, not a module of the package


def add_quickstart(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", default=Path("quickstart"), help="default quickstart")
    parser.set_defaults(command=_quickstart)


def _quickstart(options: argparse.Namespace) -> None:
    file: Path = options.folder / FILE
    if file.exists():
        raise InputError(f"the folder must have no {FILE}, which would be written over; got {options.folder}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    print(f"{file}\nRun it: python {file}")
