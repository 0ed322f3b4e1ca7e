"""Put each sentence of the documents on a line of its own, so that a changed sentence is one changed line.

python scripts/sentences.py          # rewrites the documents
python scripts/sentences.py --check  # names those that it would rewrite; ends with 1 if there are any

Headings, tables, code, quotes and HTML are unchanged. A list item keeps its indentation.
"""
# ruff: noqa: INP001, S607, T201 - a program of its own that talks to a terminal

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
AS_IT_IS: Final = re.compile(r"\s*(#|\||>|<|!\[|-{3,}$|\[[^\]]+\]:|Date: |$)")
"""Beginning of a line that is no prose."""
ITEM: Final = re.compile(r"(\s*)([*+-] |\d+\. )")
END: Final = re.compile(r"(?<=[.?!])((?:\*\*|[*_)\"'])*) +(?=(?:\*\*|[*_(\[\"'`…])*[A-Z0-9`/…])")
"""End of a sentence before the next one."""
NO_END: Final = re.compile(r"(?:\b(?:e\.g|i\.e|vs|cf|etc|approx|No|Nos|resp)|(?<!\w)[A-Z])\.$|^\d+\.$")
"""Abbreviation, initial or number of a list item, whose full stop ends no sentence."""

LABEL: Final = re.compile(r"\*\*[^*]+\*\*")
"""Bold label, which stays with its sentence."""


def reflowed(text: str) -> str:
    """Return the document with each sentence of its prose on a line of its own."""
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    fence = ""
    prose: list[str] = []
    for line in lines:
        mark = line.lstrip()[:3]
        if fence:
            fence = "" if mark == fence else fence
            yield line
        elif mark in ("```", "~~~") or AS_IT_IS.match(line) or (not prose and line.startswith("    ")):
            yield from _sentences(prose)
            prose = []
            fence = mark if mark in ("```", "~~~") else ""
            yield line
        else:
            if ITEM.match(line):
                yield from _sentences(prose)
                prose = []
            prose.append(line)
    yield from _sentences(prose)


def _sentences(prose: list[str]) -> Iterator[str]:
    """Yield the sentences of a paragraph or list item, the first with the item's mark, the others indented as its text."""
    if not prose:
        return
    item = ITEM.match(prose[0])
    lead = item[0] if item else prose[0][: len(prose[0]) - len(prose[0].lstrip())]
    indent = " " * len(lead)
    text = " ".join(line.strip() for line in [prose[0][len(lead) :], *prose[1:]])
    start = 0
    for end in END.finditer(text):
        before = text[start : end.start()] + end[1]
        if NO_END.search(before) or LABEL.fullmatch(before) or before.count("`") % 2:
            continue
        yield lead + before
        lead, start = indent, end.end()
    yield lead + text[start:]


def main(arguments: list[str]) -> int:
    """Rewrite or check the documents that git tracks."""
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    changed = []
    for name in names.split():
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = reflowed(before)
        if after != before:
            changed.append(name)
            if "--check" not in arguments:
                path.write_text(after, encoding="utf-8")
    print("\n".join(changed) or "each sentence has a line of its own")
    return int(bool(changed) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
