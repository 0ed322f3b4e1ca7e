"""Print figures of the code base: the packages' structure, size, and readability.

    python scripts/house.py                     this tree
    python scripts/house.py ../older --json     another checkout, for a comparison

For each package: its modules, its rooms (folders, and modules at the package's root), the floors (layers, where each room lies
above those that it imports), the arrows (pairs of rooms of which one imports the other), and the circles (rooms that import
each other, directly or indirectly). Lines are those of Python files that git knows. Sentences are counted in words, outside
tests; examples and tables are left out. Vague words name no actor: who, whoever, nobody, somebody.
"""
# ruff: noqa: INP001, S607, T201 - a program of its own that talks to a terminal

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

import grimp

PACKAGES = ("log_format", "gateway", "tidelog")
VAGUE = re.compile(r"\b(?:who|whoever|nobody|somebody)\b", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*`]*\s+")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
NEW_ITEM = re.compile(r"\n\s*\n|\n\s*(?:[*-]|\d+\.)\s")
Figures = dict[str, int | float]


def main() -> int:
    """Print the figures, which are not judged, and return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, default=Path(__file__).parents[1], help="a checkout")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    figures = house(options.directory.resolve())
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for part, values in figures.items():
            print(f"{part:<34} " + ", ".join(f"{name} {value:,}" for name, value in values.items()))
    return 0


def house(root: Path) -> dict[str, Figures]:
    """Return the figures of a checkout, by part."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    files = [path for name in listing.stdout.split("\0") if name and (path := root / name).is_file()]
    python = {path: path.read_text() for path in files if path.suffix == ".py"}
    documents = [path.read_text() for path in files if path.suffix == ".md"]
    tests = {path for path in python if path.relative_to(root).parts[0] == "tests"}
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    docstrings = [text for source in python.values() for text in _docstrings(source)]
    sys.path.insert(0, str(root))
    return {
        **{package: _rooms(package) for package in PACKAGES},
        "import contracts": {"count": len(contracts)},
        "lines": {
            "outside tests": sum(text.count("\n") for path, text in python.items() if path not in tests),
            "in tests": sum(text.count("\n") for path, text in python.items() if path in tests),
        },
        "words of a sentence in docstrings": _lengths(
            [text for path, source in python.items() if path not in tests for text in _docstrings(source)]
        ),
        "words of a sentence in documents": _lengths([CODE.sub("", text) for text in documents]),
        "vague words": {
            "in docstrings": _vague(docstrings),
            "in comments": _vague(comment for source in python.values() for comment in _comments(source)),
            "in documents": _vague(documents),
        },
    }


def _rooms(package: str) -> Figures:
    graph = grimp.build_graph(package, cache_dir=None)
    modules = [module for module in graph.modules if not (graph.find_children(module) or module == package)]
    stands_on: dict[str, set[str]] = {_room(module): set() for module in modules}
    for module in modules:
        imported = {_room(other) for other in graph.find_modules_directly_imported_by(module) if other in modules}
        stands_on[_room(module)] |= imported - {_room(module)}
    circles = _circles(stands_on)
    return {
        "modules": len(modules),
        "rooms": len(stands_on),
        "floors": _floors(stands_on, circles),
        "arrows": sum(map(len, stands_on.values())),
        "circles": sum(len(circle) > 1 for circle in circles),
    }


def _room(module: str) -> str:
    """Return the module's folder, or the module itself at the package's root."""
    return module if module.count(".") == 1 else module.rpartition(".")[0]


def _circles(stands_on: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the strongly connected components of the rooms."""
    reach = {room: _reached(room, stands_on) for room in stands_on}
    return {frozenset({room, *(other for other in reach[room] if room in reach[other])}) for room in stands_on}


def _reached(room: str, stands_on: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = [*stands_on[room]]
    while ahead:
        if (other := ahead.pop()) not in reached:
            reached.add(other)
            ahead += stands_on[other]
    return reached


def _floors(stands_on: dict[str, set[str]], circles: set[frozenset[str]]) -> int:
    """Return the number of layers; the rooms of one circle share a layer."""
    circle_of = {room: circle for circle in circles for room in circle}
    heights: dict[frozenset[str], int] = {}

    def height(circle: frozenset[str]) -> int:
        if circle not in heights:
            below = {circle_of[other] for room in circle for other in stands_on[room]} - {circle}
            heights[circle] = 1 + max(map(height, below), default=0)
        return heights[circle]

    return max(map(height, circles))


def _docstrings(source: str) -> Iterator[str]:
    owners = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, owners) and (text := ast.get_docstring(node)):
            yield text


def _comments(source: str) -> Iterator[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return (token.string for token in tokens if token.type == tokenize.COMMENT)


def _lengths(texts: list[str]) -> Figures:
    words = [len(sentence.split()) for text in texts for sentence in _sentences(text)]
    return {"median": median(words), "p90": quantiles(words, n=10)[-1]}


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences, without indented examples and lines of tables."""
    lines = (line for line in text.splitlines() if not line.startswith(("    ", "|")))
    for item in NEW_ITEM.split("\n".join(lines)):
        yield from (sentence for sentence in SENTENCE_END.split(item) if len(sentence.split()) > 1)


def _vague(texts: Iterator[str] | list[str]) -> int:
    return sum(len(VAGUE.findall(text)) for text in texts)


if __name__ == "__main__":
    sys.exit(main())
