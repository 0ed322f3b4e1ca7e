"""``make quick``: which tests a change concerns. Programs in a checkout of its own, as a developer has it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tracked_files import ROOT

WHICH = "import sys; sys.path.insert(0, 'scripts'); import quick; print(*quick.concerned(quick.changed(None)))"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A package of two modules and a test for each, on ``main``."""
    for name, text in {
        "package/one.py": "",
        "package/two.py": "",
        "tests/unit/test_one.py": "from package import one\n",
        "tests/unit/test_two.py": "from package.two import thing\n",
        "tests/property/test_both.py": "import os\nimport package.one\nimport package.two\n",
        "tests/integration/test_whole.py": "import package.one\n",
        ".gitignore": "__pycache__/\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "quick.py", tmp_path / "scripts")
    _git(tmp_path, "init", "-q", "-b", "main")
    _commit(tmp_path)
    return tmp_path


def _git(checkout: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=checkout, check=True)


def _commit(checkout: Path) -> None:
    _git(checkout, "add", "-A")
    _git(checkout, "commit", "-q", "-m", "a change")


def _concerned(checkout: Path) -> list[str]:
    said = subprocess.run([sys.executable, "-c", WHICH], cwd=checkout, capture_output=True, text=True, check=True)
    return said.stdout.split()


def test_a_change_concerns_the_tests_that_import_it(checkout: Path) -> None:
    """Of unit and property tests alone, those with the fewest imports first, whether or not the change is committed."""
    (checkout / "package/one.py").write_text("A = 1\n")
    expected = ["tests/unit/test_one.py", "tests/property/test_both.py"]
    assert _concerned(checkout) == expected
    _git(checkout, "checkout", "-q", "-b", "mine")
    _commit(checkout)
    assert _concerned(checkout) == expected


def test_a_changed_test_runs_first(checkout: Path) -> None:
    """A new file counts before git tracks it."""
    (checkout / "package/two.py").write_text("thing = 2\n")
    (checkout / "tests/unit/test_new.py").write_text("")
    assert _concerned(checkout) == ["tests/unit/test_new.py", "tests/unit/test_two.py", "tests/property/test_both.py"]


def test_on_main_the_newest_commit_counts(checkout: Path) -> None:
    """Somebody who has just pulled can check what came."""
    (checkout / "package/two.py").write_text("thing = 2\n")
    _commit(checkout)
    assert _concerned(checkout) == ["tests/unit/test_two.py", "tests/property/test_both.py"]
