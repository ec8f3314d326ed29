"""What the documentation says is so: its links, names, command lines, versions and printed numbers."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import syndicated
from syndicated.cli import _parser
from syndicated.cli.options import settings_of
from syndicated.environments import ENVIRONMENTS
from syndicated.environments.movielens import FACTORS_VERSION
from syndicated.experiments._results import CURVE_COLUMNS, MIN_REPEATS, RESAMPLES
from syndicated.experiments._run import MAX_CURVE_ROUNDS
from syndicated.experiments.scoreboard import _ratios
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.tuners import TUNERS

ROOT = Path(__file__).parents[2]
ABOUT = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "RELEASING", "SECURITY")]
PAGES = [*ABOUT, *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MAKEFILE = (ROOT / "Makefile").read_text()


def _fences(page: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def _shell_lines(pages: list[Path]) -> list[str]:
    blocks = [text for page in pages for language, text in _fences(page) if language == "sh"]
    return [line for text in blocks for line in text.splitlines()]


def _recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile, without the folder of the tools."""
    match = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert match, f"the Makefile has no target {target}"
    return [line.strip().removeprefix("$(BIN)/") for line in match[1].splitlines()]


COMMANDS = sorted({line for line in _shell_lines(PAGES) if line.startswith("syndicated ")})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    relative = [link.partition("#")[0] for link in links if "://" not in link]
    assert [link for link in relative if not (page.parent / link).exists()] == []


def test_there_are_links_to_every_page_from_the_readme() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", PAGES[0].read_text())
    assert {str(page.relative_to(ROOT)) for page in PAGES[1:]} <= set(links)


@pytest.mark.parametrize("name", [*POLICIES, *TUNERS, *ENVIRONMENTS])
def test_everything_registered_is_named(name: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(f"`{name}`" in page.read_text() for page in pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_is_a_doctest_or_a_shell_block(page: Path) -> None:
    """Python and TOML that are not sessions are files for other tests to write; text is what programs print."""
    for language, text in _fences(page):
        assert language in ("pycon", "sh", "text", "python", "toml")
        assert (">>> " in text) == (language == "pycon")
        if language == "python" and page.name == "coming-from.md":
            ast.parse(text)  # programs for other libraries
        elif language == "python":
            assert text.startswith("# syndicated/")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_line_parses(command: str) -> None:
    arguments = command.split()[1:]
    if arguments == ["--help"]:
        return
    options = _parser().parse_args(arguments)
    if hasattr(options, "set"):
        settings_of(options.set)


def test_every_command_line_names_what_exists() -> None:
    lines = _shell_lines([page for page in PAGES if page.name != "extending.md"])
    for option, registry in (("policy", POLICIES), ("tuner", TUNERS)):
        named = [name for line in lines for name in re.findall(rf"--{option} (\S+)", line)]
        assert named
        for name in named:
            find(registry, name)


def test_every_promise_of_the_service_has_tests_and_every_such_test_a_promise() -> None:
    page = (ROOT / "docs" / "service-contract.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .+ \| (.+) \|$", page, re.MULTILINE)
    promised = {(int(number), Path(link).name) for number, links in rows for link in re.findall(r"\((\S+)\)", links)}
    files = [file for file in ROOT.rglob("test_*.py") if ".venv" not in file.parts]
    tested = {
        (int(number), file.name)
        for file in files
        for number in re.findall(r"^(?:async )?def test_expectation_(\d\d)_", file.read_text(), re.MULTILINE)
    }
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert tested == promised


def test_the_versions_of_formats_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()
    stated = re.findall(r"`(\w+)` = (\S+) in \[[^\]]*\]\((\S+)\)", page)
    assert len(stated) == 7
    for name, value, link in stated:
        (own,) = re.findall(rf"^{name} = (\S+)", (ROOT / "docs" / link).read_text(), re.MULTILINE)
        assert (name, value) == (name, own)


def test_no_version_of_a_format_is_left_out() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()
    files = (ROOT / "syndicated").rglob("*.py")
    found = {
        name for file in files for name in re.findall(r"^(\w*VERSION|__version__) = ", file.read_text(), re.MULTILINE)
    }
    assert found == set(re.findall(r"`(\w+)` = ", page))


@pytest.mark.parametrize(
    "row", re.findall(r"^\| ([a-zA-Z].*) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)[1:]
)
def test_every_word_of_the_glossary_stands_in_its_file(row: str) -> None:
    word, _, link = row.split(" | ")
    text = (ROOT / "docs" / link.partition("](")[2].rstrip(")")).read_text().lower()
    plain = word.partition(" (")[0].replace("-", "").replace(" ", "")
    assert plain in re.sub(r"[-_\s]", "", text)


WHERE_TO_LOOK = (ROOT / "docs" / "architecture.md").read_text().partition("## Where to look")[2].partition("\n## ")[0]


@pytest.mark.parametrize("row", re.findall(r"^\| (.+ \| .+) \|$", WHERE_TO_LOOK, re.MULTILINE)[1:])
def test_what_is_named_under_where_to_look_stands_in_its_file(row: str) -> None:
    links = [ROOT / "docs" / link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", row)]
    text = "".join(file.read_text() for file in links)
    assert text
    names = [name for dotted in re.findall(r"`([\w.]+)`", row) for name in dotted.split(".")]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_every_make_target_exists() -> None:
    targets = {line.split()[1] for line in _shell_lines(PAGES) if line.startswith("make ")}
    assert {"demo", "test"} <= targets
    for target in targets:
        assert _recipe(target)


def test_the_readme_says_where_the_demo_lands() -> None:
    (command,) = _recipe("demo")
    options = _parser().parse_args(command.split()[1:])
    for suffix in ("csv", "png"):
        assert f"`{options.out / 'demo'}.{suffix}`" in PAGES[0].read_text()


def test_make_scoreboard_copies_what_the_command_writes() -> None:
    command, copy = _recipe("scoreboard")
    options = _parser().parse_args(command.split()[1:])
    assert (options.world, options.tuner, options.repeats, options.horizon, options.seed) == ([], [], None, None, None)
    written = ("scoreboard.md", "scoreboard.svg", "scoreboard-trade-off.svg")
    assert copy == f"cp {' '.join(f'{options.out}/{name}' for name in written)} docs/"


def test_make_bakeoff_copies_what_the_command_writes() -> None:
    command, copy = _recipe("bakeoff")
    options = _parser().parse_args(command.split()[1:])
    assert (options.data, options.player, options.no_peers) == ([], [], False)
    assert copy == f"cp {options.out}/bakeoff.md docs/"


def test_the_readme_quotes_the_bake_off() -> None:
    board = (ROOT / "docs" / "bakeoff.md").read_text().partition("## All players")[2].partition("\n## ")[0]
    players = {row.split(" | ")[0]: row.split(" | ") for row in re.findall(r"^\| (.+) \|$", board, re.MULTILINE)}
    quoted = re.findall(r"^\| (.+) \| ([\d.]+) \| (0[\d.]+) \| ([\d,]+) \|$", PAGES[0].read_text(), re.MULTILINE)
    assert len(quoted) == 5
    for name, *numbers in quoted:
        row = players[name.strip("`").replace("Vowpal Wabbit", "VW")]
        assert numbers == [f"{float(row[1]):.1f}", row[3], row[7]]


def test_every_column_of_the_tidy_table_is_explained() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text()
    assert [column for column in (*CURVE_COLUMNS, *_ratios.REGRET_COLUMNS) if f"`{column}`" not in page] == []


def test_the_docs_of_the_experiments_have_the_numbers_of_the_code() -> None:
    page = " ".join((ROOT / "docs" / "experiments.md").read_text().split())
    assert f"At most {MAX_CURVE_ROUNDS} rounds of a curve are kept" in page
    assert f"a bootstrap of {RESAMPLES:,} resamples" in page
    assert f"at least {MIN_REPEATS} repeats" in page
    assert f"movielens-100k-ccd-{FACTORS_VERSION}-20.factors" in (ROOT / "docs" / "data.md").read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_example_prints_what_the_docs_quote(example: Path) -> None:
    command = [sys.executable, "-W", "error", str(example)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pages = [page for page in PAGES if example.name in page.read_text()]
    assert pages
    for page in pages:
        assert ("text", printed) in _fences(page)


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert syndicated.__version__ == version
    assert re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == version
    assert re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE) == [version]


def test_the_citation_names_this_work_and_the_paper() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    keys = re.findall(r"^([\w-]+):", text, re.MULTILINE)
    assert len(keys) == len(set(keys))
    assert {"cff-version", "message", "title", "type", "authors", "version", "license", "references"} == set(keys)
    assert "\t" not in text
    ours, _, paper = text.partition("\nreferences:\n")
    assert "name: The syndicated developers" in ours
    assert "arXiv:2106.02979" in paper
    names = re.findall(r"family-names: (\w+)", paper)
    assert names == ["Ding", "Kang", "Liu", "Lee", "Hsieh", "Sharpnack"]


def test_the_licence_is_the_one_that_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "BSD-3-Clause"
    first, _, holder = (ROOT / "LICENSE").read_text().splitlines()[:3]
    assert first == "BSD 3-Clause License"
    assert holder.endswith(project["authors"][0]["name"])


def test_the_hosts_workflow_runs_make_test_on_every_supported_python() -> None:
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert re.findall(r"^ +- run: (.+)$", text, re.MULTILINE) == ["make test", "make test-lowest"]
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert f'python-version: ["{oldest}", ' in text


def test_what_is_published_was_tested_as_a_wheel_on_every_python_that_the_package_names() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = [name.rpartition(" ")[2] for name in named if name.startswith("Programming Language :: Python :: 3.")]
    assert f"python-version: {versions}".replace("'", '"') in text
    assert re.findall(r"^ +- run: (make .+)$", text, re.MULTILINE) == ["make dist", "make test-wheel", "make test"]
    publish = text.partition("\n  publish:\n")[2]
    assert "needs: [wheel, checkout]" in publish
    assert "actions/checkout" not in publish


def test_the_readme_says_what_every_extra_is_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    section = (ROOT / "README.md").read_text().partition("## Install what you need")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `(\w+)` \| ", section, re.MULTILINE)
    assert set(table) == set(extras) - {"test", "bench", "docs"}


def test_make_test_installs_every_extra_but_other_bandit_libraries() -> None:
    """Those have tests that are skipped without them: their versions may not go with the lowest that we allow."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (installed,) = re.findall(r"^EVERYTHING := (.+)$", MAKEFILE, re.MULTILINE)
    assert sorted([*installed.split(","), "peers"]) == sorted(extras)


def test_commits_are_checked_by_the_tools_of_make_test() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    hooks = re.findall(r"^ +entry: \.venv/bin/(.+)$", text, re.MULTILINE)
    tools = re.findall(r"\b(ruff \w+|mypy)\b", "\n".join(_recipe("test")))
    assert hooks == tools


@pytest.mark.parametrize("script", ["capacity.py", "capacity_simulation.py"])
def test_the_capacity_model_is_that_of_its_constants(script: str) -> None:
    """All tables of it, and its formula, are printed from constants that stand in one place."""
    command = [sys.executable, str(ROOT / "benchmarks" / script)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [" ".join(line.split()) for line in printed if re.match(r"\| [\d,]+ |\(D", line)]
    page = [" ".join(line.split()) for line in (ROOT / "docs" / "scale.md").read_text().splitlines()]
    assert len(rows) >= 4
    assert [row for row in rows if row not in page] == []
