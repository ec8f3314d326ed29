"""`syndicated doctor`: what is installed, compiled, cached and reachable."""

import argparse
import os
import platform
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from types import FunctionType

from syndicated.cli.options import DEFAULT_URL, URL
from syndicated.errors import MissingExtraError

PATIENCE = 5.0  # seconds, for whatever has to be reached
EXTRA = re.compile(r"^([\w.-]+).*extra == ['\"]([\w-]+)['\"]")
Row = tuple[str, str]


def add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default=os.environ.get(URL, DEFAULT_URL), help=f"of a service (default: {URL})")
    parser.add_argument("--offline", action="store_true", help="try to reach nothing")
    parser.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> None:
    parts = {"installed": _installed(), "compiled": _compiled(), "cached": _cached()}
    if not options.offline:
        parts["reachable"] = _reachable(options.url)
    for title, rows in parts.items():
        print(f"{title}:")
        for name, value in rows:
            print(f"  {name:<24} {value}")


def _installed() -> Iterator[Row]:
    yield "Python", f"{platform.python_version()}, {sys.executable}"
    package = sys.modules[__name__.partition(".")[0]]
    yield package.__name__, f"{package.__dict__['__version__']}, {Path(str(package.__file__)).parent}"
    for name in ("numpy", "numba", "scipy"):
        yield name, version(name)
    for extra, packages in sorted(_extras().items()):
        missing = [name for name in packages if _version(name) is None]
        have = ", ".join(f"{name} {_version(name)}" for name in packages if name not in missing)
        lacks = f"lacks {', '.join(missing)}: pip install 'syndicated[{extra}]'" if missing else ""
        yield f"extra {extra}", "; ".join(part for part in (have, lacks) if part)


def _extras() -> dict[str, list[str]]:
    """The packages of every extra, as the distribution says them; none if the package is not installed as one."""
    found: dict[str, list[str]] = {}
    try:
        asked = requires("syndicated") or []
    except PackageNotFoundError:
        return {}
    for text in asked:
        match = EXTRA.match(text)
        if match and match[2] not in ("test", "bench", "docs"):
            found.setdefault(match[2], []).append(match[1])
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _compiled() -> Iterator[Row]:
    import_module("syndicated.cli.compile")  # it imports all that has kernels
    from syndicated._compiled import KERNELS

    folders = {kernel: _cache_folder(kernel.function) for kernel in KERNELS}
    there = [kernel for kernel, folder in folders.items() if folder and _is_cached(folder, kernel.function)]
    yield "kernels in the cache", f"{len(there)} of {len(KERNELS)}; `syndicated compile` makes those that are missing"
    first, *others = sorted({folder or "none that can be written" for folder in folders.values()})
    yield "their folders", first
    yield from (("", folder) for folder in others)


def _cache_folder(function: FunctionType) -> str | None:
    """Where Numba keeps the compiled code of a function."""
    from syndicated._numba import dispatcher_of

    stats = getattr(dispatcher_of(function), "stats", None)  # with NUMBA_DISABLE_JIT it is the function itself
    return None if stats is None else stats.cache_path


def _is_cached(folder: str, function: FunctionType) -> bool:
    """Whether there is an index of Numba's cache for a function at its line."""
    stem, code = Path(function.__code__.co_filename).stem, function.__code__
    return any(Path(folder).glob(f"{stem}.{function.__qualname__}-{code.co_firstlineno}.py*.nbi"))


def _cached() -> Iterator[Row]:
    from syndicated.datasets.movielens import cache

    try:
        folder = cache()
    except MissingExtraError as error:
        yield "data", str(error)
        return
    yield "folder", str(folder)
    for entry in sorted(folder.iterdir()) if folder.exists() else []:
        files = [entry] if entry.is_file() else [file for file in entry.rglob("*") if file.is_file()]
        yield entry.name, f"{sum(file.stat().st_size for file in files) / 1e6:.1f} MB"


def _reachable(url: str) -> Iterator[Row]:
    yield "package index", _index()
    yield "service", _service(url)


def _index() -> str:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--timeout", f"{PATIENCE:g}", "--retries", "0"]
    try:
        ended = subprocess.run([*pip, "index", "versions", "numpy"], capture_output=True, timeout=4 * PATIENCE)
    except subprocess.TimeoutExpired:
        return "no answer"
    return "yes" if ended.returncode == 0 else "no: data sets of the package index cannot be fetched"


def _service(url: str) -> str:
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/healthz", timeout=PATIENCE) as answer:
            return f"{url}: {answer.status}"
    except (OSError, ValueError) as error:
        return f"{url}: {getattr(error, 'reason', error)}"
