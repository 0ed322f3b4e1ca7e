"""Tables for people: printed row by row, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

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

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [f"### {self.title}", "", "| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        lines += ["", *self.notes] if self.notes else []
        return "\n".join(lines) + "\n"


def with_results(document: str, about: str, tables: Sequence[Table]) -> str:
    """The document with these tables between ``START`` and ``END``. They replace tables of the same title; new ones come last.

    ``about`` describes this run. Tables that it did not measure name their own run in their last line.
    """
    head, rest = document.split(START)
    before, tail = rest.split(END)
    earlier, *sections = before.split(f"\n{_TITLE}")
    measured = {table.title: table.markdown() for table in tables}
    kept = {}
    for section in sections:
        title = section.partition("\n")[0]
        text = f"{_TITLE}{section.rstrip()}\n"
        is_old = "\nMeasured: " not in text and earlier.strip() != about
        kept[title] = measured.pop(title, f"{text}\nMeasured: {earlier.strip()}\n" if is_old else text)
    results = "\n".join([*kept.values(), *measured.values()])
    return f"{head}{START}\n{about}\n\n{results}{END}{tail}"


def percentile(latencies_ms: Sequence[float], fraction: float) -> float:
    """The least that so many did not exceed. Raises ``ValueError`` when there is none."""
    if not latencies_ms:
        raise ValueError("no latencies")
    ordered = sorted(latencies_ms)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]
