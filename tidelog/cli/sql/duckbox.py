"""An answer as DuckDB's own shell draws it: a box with names, types and rows, of which long answers show the first and the last.

What does not fit into the terminal is left out: text is cut first, then columns in the middle are. Elsewhere nothing is cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

ROWS_SHOWN_MAX: Final = 40
"""Number of rows that are shown unless the user asks for another, as in DuckDB's shell."""
TEXT_WIDTH_MIN: Final = 12
"""Width below which a column is left out rather than cut."""
_CUT: Final = "\N{HORIZONTAL ELLIPSIS}"
_GAP: Final = "\N{MIDDLE DOT}"
_TYPES: Final = {
    '"NULL"': "null", "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64", "HUGEINT": "int128",
    "UTINYINT": "uint8", "USMALLINT": "uint16", "UINTEGER": "uint32", "UBIGINT": "uint64", "UHUGEINT": "uint128",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxColumn:
    """A column of the answer. ``type``: DuckDB's name of it; a number is aligned to the right."""

    name: str
    type: str
    is_number: bool


class Box:
    """Collects the rows of an answer, and draws those that are shown."""

    def __init__(self, columns: Sequence[BoxColumn], *, rows_max: int = ROWS_SHOWN_MAX) -> None:
        self._columns = columns
        self._first_max = rows_max - rows_max // 2
        self._first: list[Sequence[str]] = []
        self._last: deque[Sequence[str]] = deque(maxlen=rows_max // 2)
        self.row_count = 0

    def add(self, cells: Sequence[str]) -> None:
        """Add a row of texts without line breaks."""
        self.row_count += 1
        if len(self._first) < self._first_max:
            self._first.append(cells)
        else:
            self._last.append(cells)

    def lines(self, width: int | None) -> Iterable[str]:
        """Yield the lines. ``width``: columns of the terminal; None: nothing is cut."""
        types = [_TYPES.get(each.type, each.type.lower()) for each in self._columns]
        names = [each.name for each in self._columns]
        rows = [*self._first, *self._last]
        widths = [max(map(cell_len, cells)) for cells in zip(names, types, *rows, strict=True)]
        shown = list(range(len(widths))) if width is None else self._fitted(widths, width)
        left_out = len(shown) < len(widths)
        at = len(shown) - len(shown) // 2

        def line(cells: Sequence[str], align: Sequence[str], ends: str = "│││", fill: str = " ") -> str:
            parts = [_aligned(cells[each], widths[each], align[each]) for each in shown]
            if left_out:
                parts.insert(at, _CUT if fill == " " else fill)
            return ends[0] + ends[1].join(f"{fill}{part}{fill}" for part in parts) + ends[2]

        def rule(ends: str) -> str:
            return line(["─" * each for each in widths], "<" * len(widths), ends, "─")

        aligned = [">" if each.is_number else "<" for each in self._columns]
        yield rule("┌┬┐")
        yield line(names, "^" * len(widths))
        yield line(types, "^" * len(widths))
        yield rule("├┼┤")
        yield from (line(row, aligned) for row in self._first)
        hidden = self.row_count - len(rows)
        if hidden:
            yield from [line([_GAP] * len(widths), "^" * len(widths))] * 3
        yield from (line(row, aligned) for row in self._last)
        yield rule("└┴┘")
        if hidden or left_out:
            counted = f"{self.row_count:,} rows" + (f" ({len(rows):,} shown)" if hidden else "")
            yield counted + (f", {len(widths):,} columns ({len(shown):,} shown)" if left_out else "")

    def _fitted(self, widths: list[int], width: int) -> list[int]:
        """Cut the widest texts, then return the columns that fit."""
        excess = sum(widths) + 3 * len(widths) + 1 - width
        while excess > 0:
            texts = [each for each, column in enumerate(self._columns) if not column.is_number]
            widest = max(texts, key=lambda each: widths[each], default=None)
            if widest is None or widths[widest] <= TEXT_WIDTH_MIN:
                break
            others = [widths[each] for each in texts if widths[each] < widths[widest]]
            cut = min(excess, widths[widest] - max([TEXT_WIDTH_MIN, *others]))
            widths[widest] -= max(cut, 1)
            excess -= max(cut, 1)
        shown = list(range(len(widths)))
        while excess > 0 and len(shown) > 1:
            if len(shown) == len(widths):
                excess += len(_CUT) + 3
            excess -= widths[shown.pop(len(shown) // 2)] + 3
        return shown


def _aligned(text: str, width: int, where: str) -> str:
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + _CUT
    if where == ">":
        return " " * (width - size) + text
    left = (width - size) // 2 if where == "^" else 0
    return " " * left + text + " " * (width - size - left)
