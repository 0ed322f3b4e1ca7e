"""The truth: every commit that ever became part of the log, and the state that follows from each.

Written against ``docs/format.md`` and not with the code under test: JSON by ``json``, Parquet by ``pyarrow.parquet``. A commit
is part of the log when it lands one above the newest one. A commit that lands further down landed where clean-up had deleted
one: it is a ghost, and no reader may ever see it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


class Violation(AssertionError):
    """A guarantee is broken."""


@dataclass(frozen=True, slots=True)
class TrueState:
    """The topic after one commit."""

    version: int
    landed_ms: int
    topic_id: str | None
    partition_count: int
    config: dict[str, str] = field(default_factory=dict)
    next_offsets: tuple[int, ...] = ()
    log_starts: tuple[int, ...] = ()
    paths: frozenset[str] = frozenset()


Place = tuple[str, int, int]
"""Incarnation, partition, offset."""


class Truth:
    """The log of one topic as it came about. ``get`` reads an object of the topic's table from the store itself.

    ``across_incarnations``: a value is there once for ever, not only in each incarnation of the topic.
    """

    def __init__(self, get: Callable[[str], bytes], *, across_incarnations: bool = True) -> None:
        self._get = get
        self._across_incarnations = across_incarnations
        self.commits: list[bytes] = []
        self.states: list[TrueState] = [TrueState(-1, -1, None, 0)]
        """By version + 1: the first one is that of an empty log."""
        self.values: dict[Place, bytes] = {}
        """The record that each place names, for ever."""
        self.places: dict[bytes, Place] = {}
        self.versions: dict[bytes, int] = {}
        """Which commit brought each value."""
        self.ghosts = 0

    @property
    def head(self) -> TrueState:
        """The state at the newest commit."""
        return self.states[-1]

    def state_at(self, version: int) -> TrueState:
        """The state at a version. Raises ``Violation`` when the log never had it."""
        if not -1 <= version < len(self.states) - 1:
            raise Violation(f"version {version} was seen, the newest is {self.head.version}")
        return self.states[version + 1]

    def between(self, start_ms: int, end_ms: int) -> list[TrueState]:
        """Every state that was the newest at some moment of ``[start_ms, end_ms]``."""
        first = max(index for index, state in enumerate(self.states) if state.landed_ms < start_ms or index == 0)
        return [state for state in self.states[first:] if state.landed_ms <= end_ms]

    def landed(self, version: int, data: bytes, now_ms: int) -> None:
        """A commit appeared in the store. Raises ``Violation`` when it may not follow what was there."""
        if version < len(self.commits):
            self.ghosts += 1
            return
        if version > len(self.commits):
            raise Violation(f"version {version} was written, but {len(self.commits)} never was")
        actions = [json.loads(line) for line in data.splitlines()]
        self.commits.append(data)
        self.states.append(self._follow(replace(self.head, version=version, landed_ms=now_ms), actions))

    def _follow(self, state: TrueState, actions: list[dict[str, Any]]) -> TrueState:
        adds = [action["add"] for action in actions if "add" in action]
        removes = [action["remove"]["path"] for action in actions if "remove" in action]
        txns = {action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action}
        for metadata in (action["metaData"] for action in actions if "metaData" in action):
            properties = metadata["configuration"]
            count = int(properties["tidelog.partition.count"])
            deleted = properties.get("tidelog.deleted") == "true"
            if deleted:
                state = replace(state, topic_id=None, partition_count=0, next_offsets=(), log_starts=())
            else:
                if state.topic_id is not None and metadata["id"] != state.topic_id:
                    raise Violation(f"version {state.version} makes a topic that exists")
                more = (0,) * (count - state.partition_count)
                state = replace(
                    state,
                    topic_id=metadata["id"],
                    partition_count=count,
                    next_offsets=state.next_offsets + more,
                    log_starts=state.log_starts + more,
                )
            config = {name: value for name, value in properties.items() if name.startswith("tidelog.")}
            state = replace(state, config=config)
        if state.topic_id is None:
            if adds:
                raise Violation(f"version {state.version} adds records to a topic that does not exist")
            return replace(state, paths=state.paths.difference(removes))
        next_offsets = list(state.next_offsets)
        for add in adds:
            self._take_records(state, add, next_offsets)
        said = [txns.get(str(partition), old) for partition, old in enumerate(state.next_offsets)]
        if said != next_offsets:
            raise Violation(f"version {state.version} says next offsets {said}, its records lead to {next_offsets}")
        return replace(
            state,
            next_offsets=tuple(next_offsets),
            log_starts=tuple(txns.get(f"log-start-{p}", old) for p, old in enumerate(state.log_starts)),
            paths=state.paths.difference(removes).union(add["path"] for add in adds),
        )

    def _take_records(self, state: TrueState, add: dict[str, Any], next_offsets: list[int]) -> None:
        assert state.topic_id is not None
        try:
            data = self._get(add["path"])
        except KeyError:
            raise Violation(f"version {state.version} adds {add['path']}, which is not in the store") from None
        if len(data) != add["size"]:
            raise Violation(f"version {state.version} adds {add['path']} with a size that it has not")
        file = pq.ParquetFile(pa.BufferReader(data))
        records = file.read(columns=["partition", "offset", "value"], use_threads=False)
        for row in zip(*(column.to_pylist() for column in records.columns), strict=True):
            partition, offset, value = row
            if partition >= state.partition_count or offset != next_offsets[partition]:
                raise Violation(f"version {state.version} gives offset {offset} of partition {partition} out of turn")
            place = (state.topic_id, partition, offset)
            if place in self.values:
                raise Violation(f"{place} names {value!r} and {self.values[place]!r}")
            earlier = self.places.get(value)
            if earlier is not None and (self._across_incarnations or earlier[0] == place[0]):
                raise Violation(f"{value!r} is in the log twice: at {self.places[value]} and {place}")
            self.values[place] = value
            self.places[value] = place
            self.versions[value] = state.version
            next_offsets[partition] += 1
