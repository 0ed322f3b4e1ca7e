"""From acknowledgement to row: when a Delta reader has a record of a typed topic, beside one of an untyped topic.

Each pair sends the same order to both topics and reads both tables with deltalake, in alternating order, so that what else the
machine does meets both. A topic with its own commits has the row when the answer leaves; at a journal the drain brings it.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.harness.options import Options
from benchmarks.harness.processes import Server, call, gateway, make_topic
from benchmarks.harness.report import Table, held
from benchmarks.harness.stores import directory
from benchmarks.typed.orders import FIELDS, order

PAIRS: Final = 200
FILES: Final = (50, 200)
LOOKS: Final = 20
SHARE_MAX: Final = 0.10
"""Largest share of the untyped median that the difference may be."""
_SUBJECT: Final = "orders-value"
_PLACES: Final = {
    "own commits": {"commit.mode": "own", "flush.ms": 0},
    "a journal": {"commit.mode": "shared", "drain.ms": 1000},
}
_COLUMNS: Final = {"untyped": "value", "typed": "data.id"}
_SEEN_SECONDS_MAX: Final = 60


def measure(_options: Options) -> Iterator[Table]:
    """Yield two tables."""
    table = Table(
        f"From acknowledgement to row by deltalake, {PAIRS} pairs, directory store",
        ["topic with", "untyped p50 ms", "typed p50 ms", "median difference ms (95 %)", "bound"],
        notes=[
            "The reader follows the log and reads what each version adds: data.id, or the document, parsed.",
            f"Bound: the whole interval of the difference is at most {SHARE_MAX:.0%} of the untyped median.",
        ],
    )
    with directory() as store, gateway(store) as server:
        schema = {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in FIELDS]}
        call(server.port, "POST", f"/registry/subjects/{_SUBJECT}/versions", {"schema": json.dumps(schema)})
        for number, (place, config) in enumerate(_PLACES.items()):
            waits = _pairs(store, server, {name: f"{name}-{number}" for name in _COLUMNS}, config)
            untyped = statistics.median(waits["untyped"])
            low, middle, high = _interval([b - a for a, b in zip(waits["untyped"], waits["typed"], strict=True)])
            table.add(
                place,
                f"{untyped:.1f}",
                f"{statistics.median(waits['typed']):.1f}",
                f"{middle:+.1f} ({low:+.1f} to {high:+.1f}; {low / untyped:+.0%} to {high / untyped:+.0%})",
                held(high <= SHARE_MAX * untyped),
            )
        yield table
        yield _looks(Path(store.removeprefix("file://")))


def _looks(store: Path) -> Table:
    """Return what a look at the log costs the reader, of the topics with own commits."""
    table = Table(
        f"CPU of deltalake's look at one more version, {LOOKS} looks at the end of the log",
        ["topic", *(f"{count} files, ms" for count in FILES)],
        notes=["The third log is the typed topic's, from which the statistics of typed columns are taken out."],
    )
    logs = {"untyped": "untyped-0", "typed": "typed-0", "typed, without its statistics": "typed-0"}
    for name, topic in logs.items():
        commits = sorted((store / "topics" / topic / "_delta_log").glob("*.json"))
        copy = store / f"copy of {name}"
        has_statistics = name in _COLUMNS
        table.add(name, *(f"{_look_cpu_ms(commits[:count], copy / str(count), has_statistics):.1f}" for count in FILES))
    return table


def _look_cpu_ms(commits: Sequence[Path], copy: Path, has_statistics: bool) -> float:
    """Return the median of looks at a copy of a log, each after one more of the last commits.

    ``has_statistics``: whether the copy has the statistics of typed columns.
    """
    log = copy / "_delta_log"
    log.mkdir(parents=True)
    for commit in commits[:-LOOKS]:
        (log / commit.name).write_text(_copied(commit, has_statistics))
    reader, found = DeltaTable(str(copy)), []
    for commit in commits[-LOOKS:]:
        (log / commit.name).write_text(_copied(commit, has_statistics))
        began = time.process_time()
        reader.update_incremental()
        found.append((time.process_time() - began) * 1000)
    return statistics.median(found)


def _copied(commit: Path, has_statistics: bool) -> str:
    """Return the text of a commit, with the statistics of all columns, or only of those that every topic has."""
    if has_statistics:
        return commit.read_text()
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            read = json.loads(action["add"]["stats"])
            for part in ("minValues", "maxValues", "nullCount"):
                read[part] = {name: read[part][name] for name in ("partition", "offset", "timestamp")}
            action["add"]["stats"] = json.dumps(read)
    return "\n".join(map(json.dumps, actions))


def _pairs(store: str, server: Server, topics: dict[str, str], config: dict[str, Any]) -> dict[str, list[float]]:
    """Return the wait of each pair's records in milliseconds."""
    for name, topic in topics.items():
        of_topic = config | ({"value.schema": _SUBJECT} if name == "typed" else {})
        make_topic(server.port, topic, partitions=1, config=of_topic)
    followers = {name: _Follower(f"{store}/topics/{topic}", _COLUMNS[name]) for name, topic in topics.items()}
    waits: dict[str, list[float]] = {name: [] for name in topics}
    for number in range(-5, PAIRS):  # the first ones warm up
        names = sorted(topics, reverse=number % 2 == 0)
        sent: dict[str, tuple[float, int]] = {}
        for name in names:
            body = {"records": [{"value": order(number % 1_000)}]}
            answer = call(server.port, "POST", f"/v1/topics/{topics[name]}/records", body)
            sent[name] = (time.perf_counter(), answer["partitions"][0]["base_offset"])
            if config["commit.mode"] == "own":  # the row is there: only its reading takes time
                waits[name].append(_seen([name], sent, followers)[name])
        if config["commit.mode"] != "own":
            found = _seen(names, sent, followers)
            for name in names:
                waits[name].append(found[name])
    return {name: found[-PAIRS:] for name, found in waits.items()}


def _seen(
    names: Sequence[str], sent: dict[str, tuple[float, int]], followers: dict[str, _Follower]
) -> dict[str, float]:
    """Return the milliseconds from each record's answer to its row, which is looked for in turns."""
    waits: dict[str, float] = {}
    until = time.perf_counter() + _SEEN_SECONDS_MAX
    while len(waits) < len(names):
        if time.perf_counter() > until:
            raise RuntimeError(f"no row of {names} within {_SEEN_SECONDS_MAX} s")
        for name in names:
            if name not in waits and followers[name].has_row(sent[name][1]):
                waits[name] = (time.perf_counter() - sent[name][0]) * 1000
    return waits


class _Follower:
    """A Delta reader that follows a table: it reads what each new version adds."""

    def __init__(self, path: str, column: str) -> None:
        self._table = DeltaTable(path)
        self._column = column
        self._known: set[str] = set()
        self._ids: dict[int, int] = {}

    def has_row(self, offset: int) -> bool:
        """Look at the log, read the files that it names since the last look, and return whether the offset's row was read."""
        self._table.update_incremental()
        files = set(self._table.file_uris())
        for file in files - self._known:
            for row in pq.ParquetFile(file).read(columns=["offset", self._column]).to_pylist():
                read = row["data"] if "data" in row else json.loads(row["value"])
                self._ids[row["offset"]] = read["id"]
        self._known = files
        return offset in self._ids


def _interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the median with its interval of 95 %, by ranks: the differences need no distribution."""
    ranked, count = sorted(differences), len(differences)
    reach = 0.98 * count**0.5  # 1.96 standard deviations of the number below the median
    return ranked[int(count / 2 - reach)], statistics.median(ranked), ranked[min(count - 1, int(count / 2 + reach))]
