"""What the clones of a topic store: their price, and what only they keep."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tidelog.cli.cost.prices import stored_dollars
from tidelog.cli.terminal.tables import table
from tidelog.types.topic import CloneOfTopic


def clones_table(clones: Sequence[CloneOfTopic]) -> Table:
    """Return a table with a row for each clone."""
    names = ["GB", "also in the source", "only in the clone", "its own", "$ per month"]
    rows = table("clone", numbers=names)
    for one in clones:
        parts = (one.size_bytes, one.also_in_source_bytes, one.only_in_clone_bytes, one.own_bytes)
        sizes = (f"{size_bytes / 10**9:,.2f}" for size_bytes in parts)
        rows.add_row(one.name, *sizes, f"{stored_dollars(one.size_bytes):,.2f}")
    return rows


def clones_told(clones: Sequence[CloneOfTopic]) -> list[dict[str, str | float]]:
    """Return the clones as JSON objects."""
    return [
        {
            "name": one.name,
            "bytes": one.size_bytes,
            "also_in_source_bytes": one.also_in_source_bytes,
            "only_in_clone_bytes": one.only_in_clone_bytes,
            "own_bytes": one.own_bytes,
            "dollars": round(stored_dollars(one.size_bytes), 2),
        }
        for one in clones
    ]
