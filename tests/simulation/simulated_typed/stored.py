"""What segments and journals' objects hold, read without the code under test."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from log_format.records.typed_columns import DATA, DATA_ERROR, TypeConflict, typed_columns
from log_format.stores.memory import MemoryStore
from log_format.topic.state import TopicState
from tests.simulation.simulated.truth import Place, Violation


class JournalPlace(NamedTuple):
    """A record at a journal, and since when."""

    value: bytes
    at_ms: int


@dataclass(frozen=True, slots=True)
class Row:
    """A record in the topic's table. ``data``: its members without those that are null, as pairs; None: it has no columns."""

    key: bytes | None
    value: bytes
    data: tuple[tuple[str, Any], ...] | None
    error: str | None

    @property
    def found(self) -> dict[str, Any] | None:
        """Its members."""
        return None if self.data is None else dict(self.data)


def rows_of(objects: MemoryStore, root: str, add: dict[str, Any], state: TopicState) -> dict[Place, Row]:
    """The rows of a segment, which the log says truly. Raises ``Violation`` where it does not."""
    path = add["path"]
    table = pq.read_table(io.BytesIO(objects.get(root + path)))
    try:
        is_of_table = state.columns.merged_with(typed_columns(table.schema)) == state.columns
    except TypeConflict:
        is_of_table = False
    if not is_of_table:
        raise Violation(f"{path} has columns that its table does not have: {table.schema}")
    rows: dict[Place, Row] = {}
    names = ("partition", "offset", "key", "value", DATA, DATA_ERROR)
    for row in table.select([name for name in names if name in table.schema.names]).to_pylist():
        data = row.get(DATA)
        members = None if data is None else tuple(item for item in sorted(data.items()) if item[1] is not None)
        place = (str(state.topic_id), row["partition"], row["offset"])
        rows[place] = Row(row["key"], row["value"], members, row.get(DATA_ERROR))
    _check_statistics(path, json.loads(add["stats"]), rows)
    return rows


def _check_statistics(path: str, stats: dict[str, Any], rows: dict[Place, Row]) -> None:
    ids = [row.found["id"] for row in rows.values() if row.found is not None]
    least, most = (stats.get(name, {}).get(DATA, {}).get("id") for name in ("minValues", "maxValues"))
    if stats["numRecords"] != len(rows) or (ids and (least, most) != (min(ids), max(ids))):
        raise Violation(f"the log says {stats} of {path}, which has {rows}")
    marks = sum(row.error is not None for row in rows.values())
    if (nulls := stats.get("nullCount", {}).get(DATA_ERROR)) is not None and nulls != len(rows) - marks:
        raise Violation(f"the log says {nulls} rows of {path} without {DATA_ERROR}, which has {rows}")


def rows_at_journal(objects: MemoryStore, root: str, commit: bytes) -> Iterator[tuple[Place, bytes]]:
    """Each record that a journal's commit gives an offset to, and its value."""
    for add in (action["add"] for action in map(json.loads, commit.splitlines()) if "add" in action):
        table = pq.read_table(io.BytesIO(objects.get(root + add["path"])), columns=["topic_id", "partition", "value"])
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        text = add["tags"]["tidelog.runs"]
        for topic_id, runs, *_ in json.loads(text if text.startswith("[") else zlib.decompress(base64.b64decode(text))):
            for partition, base, end, *_rest in runs:
                mine = [value for of, at, value in rows if (of, at) == (topic_id, partition)]
                if len(mine) != end - base:
                    raise Violation(f"a journal has {mine} for offsets {base} to {end}")
                for index, value in enumerate(mine):
                    yield (topic_id, partition, base + index), value
