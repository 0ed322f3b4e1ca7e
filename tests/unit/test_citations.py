"""What code, tests and documents cite exists: files, modules, sections, decisions, guarantees.

A stale citation sends a reader astray. Cited are paths, links of documents, dotted names of the packages, sections of
``docs/http-api.md``, decisions by number and guarantees by label. The changelog is history and not checked; nor is a block of
``text`` in a document, which may show a former tree.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.support.documents import pages
from tests.support.tracked_files import ROOT, tracked_files

PACKAGES = "log_format|gateway|tidelog|compaction|spark_pipeline"
FOLDERS = f"{PACKAGES}|benchmarks|docs|examples|infra|scripts|tests"
PATH = re.compile(rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]*\w")
FILE = re.compile(r"(?<![\w.*/{-])(?:[a-z_]\w*/)*[a-z_]\w*\.(?:py|md)\b(?![/(-])")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#([^)]*))?\)")
DOTTED = re.compile(rf"(?<![\w./\"'])(?:{PACKAGES})(?:\.[A-Za-z_]\w*)+(?![\w/\"'])")
NAME = re.compile(r"`([a-z]+(?:_[a-z0-9]+)+)`")
DECISION = re.compile(r"\b[Dd]ecisions?[ /]([0-9]{3})\b")
GUARANTEE = re.compile(r"\bG[0-9]+\b")
SECTION = re.compile(r"docs/(http-api|format)\.md,?\s+section\s+([0-9]+(?:\.[0-9]+)?)")
ELSEWHERE = re.compile(r"\bDESIGN\b|HTTP_" + r"API|HTTP API,? section")
"""Documents that are not part of the repository."""
BLOCK = re.compile(r"^```text\n.*?^```", re.MULTILINE | re.DOTALL)
DOCSTRING = re.compile(r'^[ \t]*"""(.*?)"""', re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"(?:^|\s)#\s(.*)$", re.MULTILINE)
OTHERS_FILES = {"log_format.py", "orders.py", "regex.py"}
"""Names of files that are not the repository's."""
NO_MODULES = ("py", "lock", "zip", "svc", "bash", "fish")
"""What a file's or a host's name ends with, where a module's goes on."""


@cache
def _names() -> frozenset[str]:
    """Files, and the folders that they are in."""
    return frozenset(str(path) for name in tracked_files() for path in (Path(name), *Path(name).parents))


@cache
def _prose() -> tuple[tuple[str, str], ...]:
    """What people read, by file: documents, and docstrings and comments of code."""
    found: list[tuple[str, str]] = []
    for name in tracked_files():
        path = ROOT / name
        if name.endswith(".md") and name != "CHANGELOG.md":
            found.append((name, BLOCK.sub("", path.read_text())))
        elif name.endswith(".py") and path != Path(__file__).resolve():
            found.append((name, "\n".join(_words(path.read_text()))))
        elif name.endswith((".tf", ".hcl", ".yaml", ".toml", ".lock", ".sh", "Dockerfile")) or path.name == "Makefile":
            found.append((name, "\n".join(COMMENT.findall(path.read_text()))))
    return tuple(found)


def _words(source: str) -> list[str]:
    return [*DOCSTRING.findall(source), *COMMENT.findall(source)]


@cache
def _literals() -> frozenset[str]:
    """Every short string in code: ``tidelog.runs`` is a tag, and no module."""
    sources = ((ROOT / name).read_text() for name in tracked_files() if name.endswith(".py"))
    return frozenset(text for source in sources for text in re.findall(r'"([a-z][a-z._]{1,40})"', source))


@cache
def _text(package: str) -> str:
    """All code of a package."""
    return "\n".join(path.read_text() for path in sorted((ROOT / package).rglob("*.py")))


def _cited(pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    return ((name, match) for name, text in _prose() for match in pattern.finditer(text))


def _assert_none(wrong: Iterator[str]) -> None:
    listed = sorted(set(wrong))
    assert not listed, "\n" + "\n".join(listed)


def test_there_is_something_to_check() -> None:
    """Without this every rule below would hold for nothing."""
    texts = dict(_prose())
    assert {"docs/guarantees.md", "log_format/delta/committer.py", "tests/unit/test_tidy.py"} <= texts.keys()
    for pattern in (PATH, FILE, LINK, DOTTED, NAME, DECISION, GUARANTEE, SECTION):
        assert next(_cited(pattern), None) is not None, pattern


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (PATH, "see ``log_format/table_log.py``"),
        (FILE, "(`engine/nowhere.py`)"),
        (LINK, "[x](nowhere.md#here)"),
        (DOTTED, "(``log_format.rewrite.Rewrite``)"),
        (NAME, "as ``segment_reader`` does"),
        (DECISION, "docs/decisions/999-x.md"),
        (GUARANTEE, "as G12 says"),
        (SECTION, "docs/http-api.md section 11"),
        (ELSEWHERE, "(DESIGN, section 3)"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], text: str) -> None:
    """No pattern is so narrow that it lets through what it should find."""
    assert pattern.search(text)


def test_paths_exist() -> None:
    """A path from the root names a file or a folder."""
    _assert_none(
        f"{name}: {match[0]}"
        for name, match in _cited(PATH)
        if match[0] not in _names() and not _is_made_later(match[0])
    )


def test_files_exist() -> None:
    """A file's name without its whole path is that of some file."""
    known = {
        part
        for name in tracked_files()
        for part in ("/".join(Path(name).parts[i:]) for i in range(len(Path(name).parts)))
    }
    _assert_none(
        f"{name}: {match[0]}"
        for name, match in _cited(FILE)
        if match[0] not in known and Path(match[0]).name not in OTHERS_FILES
    )


def test_links_lead_somewhere() -> None:
    """A document's link names a file or folder beside it, and its fragment a heading there."""
    _assert_none(f"{name}: {match[0]}" for name, match in _cited(LINK) if not _leads_somewhere(name, match))


def test_modules_exist() -> None:
    """A dotted name of a package is a module, something that a module names, or a value of the chart."""
    _assert_none(
        f"{name}: {match[0]}"
        for name, match in _cited(DOTTED)
        if not _is_dotted(match[0]) and not _is_attribute(match[0], ROOT / name) and not _is_chart_value(match[0])
    )


def test_names_exist() -> None:
    """A name that a docstring or comment sets in backticks, or one of the two maps of the code, is there in code."""
    code: set[str] = set()
    for name in tracked_files():
        code.update(re.split(r"[/.]", name))
        if not name.endswith((".md", ".png")):
            text = (ROOT / name).read_text(errors="replace")
            code.update(re.findall(r"\w+", COMMENT.sub("", DOCSTRING.sub("", text)) if name.endswith(".py") else text))
    _assert_none(
        f"{name}: {match[1]}"
        for name, match in _cited(NAME)
        if name.endswith((".py", "ARCHITECTURE.md", "CONTRIBUTING.md"))
        and match[1].removesuffix("_total") not in code
        and not match[1].endswith("_base64")
    )


def test_decisions_exist() -> None:
    """A decision's number is that of one file, and each is in the index with its title, date and status."""
    numbers = {Path(name).name[:3] for name in tracked_files() if re.fullmatch(r"docs/decisions/[0-9]{3}-.*\.md", name)}
    _assert_none(f"{name}: {match[0]}" for name, match in _cited(DECISION) if match[1] not in numbers)
    index = (ROOT / "docs/decisions/README.md").read_text()
    for name in tracked_files():
        if re.fullmatch(r"docs/decisions/[0-9]{3}-.*\.md", name):
            text = (ROOT / name).read_text()
            head = re.match(r"# ([0-9]{3}): (.+)\n\nDate: ([0-9]{4}-[0-9]{2}-[0-9]{2})\. Status: ([a-z ,0-9]+)\.", text)
            assert head is not None, f"{name}: number, title, date and status"
            number, title, date, status = head.groups()
            assert f"| [{number}]({Path(name).name}) | {title} | {date} | {status} |" in index, name


def test_guarantees_are_defined() -> None:
    """A label such as G1 is a heading of docs/guarantees.md."""
    defined = set(re.findall(r"^## (G[0-9]+): ", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE))
    _assert_none(f"{name}: {match[0]}" for name, match in _cited(GUARANTEE) if match[0] not in defined)


def test_sections_exist() -> None:
    """A section that is cited by number is a heading of that document."""
    numbers = {
        "http-api": set(re.findall(r"^#+ ([0-9.]*[0-9])", pages("http-api"), re.MULTILINE)),
        "format": set(re.findall(r"^#+ ([0-9.]*[0-9])", pages("format"), re.MULTILINE)),
    }
    _assert_none(f"{name}: {match[0]}" for name, match in _cited(SECTION) if match[2] not in numbers[match[1]])


def test_nothing_outside_is_cited() -> None:
    """No document is cited that a reader of the repository does not have."""
    _assert_none(f"{name}: {match[0]}" for name, match in _cited(ELSEWHERE))


def _is_made_later(path: str) -> bool:
    """Whether git passes over it: what is built is there only after it was."""
    ignored = subprocess.run(
        ["git", "-c", "safe.directory=*", "check-ignore", "-q", path], cwd=ROOT, capture_output=True, check=False
    )
    return ignored.returncode == 0


def _leads_somewhere(name: str, match: re.Match[str]) -> bool:
    target, fragment = match.groups()
    path = (ROOT / name).parent / target
    if not path.exists():
        return False
    if not fragment or path.suffix != ".md":
        return True
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return fragment in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _is_dotted(name: str) -> bool:
    parts = name.split(".")
    if (
        parts[-1] in NO_MODULES
        or parts[-1].startswith("__")
        or name in _literals()
        or (parts[0] == "tidelog" and parts[1] in _literals())
    ):
        return True
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        module = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        if module.is_file():
            named, *inside = [*parts[count:], ""]
            return bool(re.search(rf"\b{named}\b", module.read_text())) and all(
                re.search(rf"\b{part}\b", _text(parts[0])) for part in inside
            )
    return False


def _is_chart_value(name: str) -> bool:
    values = yaml.safe_load((ROOT / "infra/helm/tidelog/values.yaml").read_text())
    for part in name.split("."):
        if values == {}:
            return True
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True


def _is_attribute(name: str, path: Path) -> bool:
    """Whether a variable that has a package's name is meant: ``gateway.stop``, in a file that defines ``stop``."""
    _variable, *attributes = name.split(".")
    return len(attributes) == 1 and bool(re.search(rf"(?:self\.|def ){attributes[0]}\b", path.read_text()))


def test_decisions_have_numbers_of_their_own() -> None:
    """A number names one decision: two that are written at the same time must not take the same."""
    numbers = [name.rpartition("/")[2][:3] for name in tracked_files() if re.match(r"docs/decisions/\d{3}-", name)]
    assert len(numbers) > 80
    assert sorted(numbers) == sorted(set(numbers))
