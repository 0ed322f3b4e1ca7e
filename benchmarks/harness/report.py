"""The answer of a benchmark: tables, printed row by row, as Markdown in benchmarks/README.md, and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from typing import Any, Final

START: Final = "<!-- results -->"
END: Final = "<!-- end of results -->"
_TITLE: Final = "### "


@dataclass(slots=True)
class Table:
    """A title, columns and rows of text."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Add a row, and print it at once, so that a long run shows its progress."""
        row = [str(cell) for cell in cells]
        if not self.rows:
            print(f"\n{self.title}\n  " + " | ".join(self.columns), flush=True)
        print("  " + " | ".join(row), flush=True)
        self.rows.append(row)

    def as_json(self) -> dict[str, Any]:
        """Return the table for machines."""
        return asdict(self)

    def markdown(self, command: str, run: str) -> str:
        """Return the table for people, with the command that makes it and a description of its run."""
        lines = [f"{_TITLE}{self.title}", "", f"`{command}`", ""]
        lines += ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        lines += ["", *self.notes] if self.notes else []
        return "\n".join([*lines, "", f"Measured: {run}"]) + "\n"


def held(is_held: bool) -> str:
    """Return a table's cell for a bound."""
    return "held" if is_held else "BROKEN"


@contextmanager
def printed(*, as_json: bool) -> Iterator[None]:
    """Print tables on standard output; on standard error where JSON goes to standard output."""
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        yield


def with_results(document: str, made: Sequence[tuple[str, str]]) -> str:
    """Return the document with these tables between ``START`` and ``END``.

    Args:
        document: benchmarks/README.md.
        made: title and Markdown of each table. It replaces the table of the same title; new ones come last.
    """
    head, rest = document.split(START)
    before, tail = rest.split(END)
    first, *sections = before.split(f"\n{_TITLE}")
    kept = {section.partition("\n")[0]: f"{_TITLE}{section.rstrip()}\n" for section in sections}
    parts = [f"{text}\n" for text in [first.strip()] if text]
    results = "\n".join([*parts, *(kept | dict(made)).values()])
    return f"{head}{START}\n{results}{END}{tail}"
