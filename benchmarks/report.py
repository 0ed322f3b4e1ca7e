"""Tables for people: printed as they come, and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    """A title, columns and rows of text."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """One row; it is printed at once, so that a long run shows where it is."""
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
