"""Checks what changed, within about a minute: style, types, and the unit and property tests that the change concerns.

python scripts/quick.py [BASE]

What changed is the difference from ``BASE``, by default from where the branch left ``main``, and files that git does not track.
On ``main`` itself without changes it is the newest commit. A change concerns a test file that it changes, and one that imports a
changed module by name. ``make test`` runs all others.
"""
# ruff: noqa: INP001, S603, S607, T201 - a program of its own that talks to a terminal and begins the tools

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
TESTS: Final = ("tests/unit", "tests/property")
FILES_MAX: Final = 60
"""Number of test files for which a minute suffices. Of a change that concerns more, those with the fewest imports run."""
ALWAYS: Final = ("tests/unit/test_tidy.py",)


def changed(base: str | None) -> set[str]:
    """Return the changed files, as paths from the root."""
    if base is None:
        base = _git("merge-base", "HEAD", "main")[0]
        if not _git("diff", "--name-only", base) and not _git("ls-files", "--others", "--exclude-standard"):
            base = "HEAD~1"
    return {*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")}


def concerned(files: set[str]) -> list[str]:
    """Return the test files that a change of these files concerns, those with the fewest imports first."""
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files if name.endswith(".py")
    }
    found = []
    for folder in TESTS:
        for path in (ROOT / folder).rglob("test_*.py"):
            name = str(path.relative_to(ROOT))
            imports = _imports(path)
            if name in files or imports & modules:
                found.append((name not in files, len(imports), name))
    return [name for _, _, name in sorted(found)]


def _imports(path: Path) -> set[str]:
    """Return the modules that a file imports by name; of ``from a import b`` both ``a`` and ``a.b``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def _git(*arguments: str) -> list[str]:
    said = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return said.split("\n")[:-1]


def main(arguments: list[str]) -> int:
    """Run the checks side by side. Returns 0 if all passed."""
    began = time.monotonic()
    tests = concerned(changed(arguments[0] if arguments else None))
    left = tests[FILES_MAX:]
    binaries = Path(sys.executable).parent
    checks = {
        "types": subprocess.Popen([binaries / "mypy"], cwd=ROOT, stdout=subprocess.PIPE, text=True),
        "style": subprocess.Popen([binaries / "ruff", "check"], cwd=ROOT, stdout=subprocess.PIPE, text=True),
        "format": subprocess.Popen(
            [binaries / "ruff", "format", "--check"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ),
    }
    chosen = [*ALWAYS, *(name for name in tests[:FILES_MAX] if name not in ALWAYS)]
    failed = (
        subprocess.run(
            [binaries / "pytest", "-q", "-x", "-n", "4", "--dist", "loadfile", *chosen], cwd=ROOT, check=False
        ).returncode
        != 0
    )
    for name, check in checks.items():
        said, _ = check.communicate()
        if check.returncode:
            print(f"{name}:\n{said}")
            failed = True
    print(f"{len(chosen)} test files, style and types in {time.monotonic() - began:.0f} s")
    if left:
        print(f"{len(left)} more import what changed: make test runs them.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
