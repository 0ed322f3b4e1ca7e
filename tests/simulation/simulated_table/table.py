"""What a topic's table has, told by its commits and files alone, and what each commit may change.

1. Every row is in one file. Its value, key and time stay, unless a request to erase is about it.
2. A row leaves the table only when the settings let it: below the log start of a topic that keeps no rows, after
   ``table.retention.ms``, or superseded by a later record of its key. The log start moves only past what ``retention.ms`` lets
   go.
3. A file in the archive is named with the tag, and lies below the log starts.
4. A request counts as carried out only when no row in the table has what it means.
5. A checkpoint names exactly the files of its version: part 1 the log's, part 2 the archive's, which is put before.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from log_format import layout
from log_format.cluster.identity import load_cluster
from log_format.records.condition import parse_condition
from log_format.records.erasing import digest_of, hide_condition
from log_format.stores.memory import MemoryStore
from log_format.topic.config import TopicConfig
from log_format.topic.erasures import Erasure, parse_erasures
from log_format.topic.pins import Pin, parse_pins
from tests.simulation.simulated.faults import SECOND_MS
from tests.simulation.simulated.scheduler import EPOCH_MS
from tests.simulation.simulated.truth import Place, Violation
from tests.simulation.simulated_table.foreign import ForeignCommits
from tests.simulation.simulated_table.people import condition_of
from tests.simulation.simulated_typed.judge import Timeline

ARCHIVE = "tidelog.archive"
CLOCKS_APART_MS = 6 * SECOND_MS + 1
"""How much two clocks differ at most."""


class Row(NamedTuple):
    """A record in the table."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


Rows = Mapping[Place, Row]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the table: its files, and which of them are in the archive."""

    topic_id: str | None
    files: Mapping[str, bool]
    next_offsets: Mapping[int, int]
    log_starts: Mapping[int, int]

    def paths(self, *, archived: bool) -> set[str]:
        """Those in the archive, or those in the log."""
        return {path for path, is_archived in self.files.items() if is_archived is archived}


NO_VERSION = Version(None, {}, {}, {})


@dataclass(slots=True)
class Landed:
    """What a commit did. ``took``: rows that are new in the topic; ``events``: what is counted."""

    took: dict[Place, Row] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)


class Table:
    """One topic's table. ``now``: the time of the history; ``since``: since when what is committed now may have been planned."""

    def __init__(self, objects: MemoryStore, topic: str, now: Callable[[], int], since: Callable[[], int]) -> None:
        self.topic = topic
        self.root = layout.topic_root(topic)
        self.versions: list[Version] = []
        self.rows: dict[str, dict[Place, Row]] = {}
        """Of every file that ever was in the table."""
        self.pins: tuple[Pin, ...] = ()
        self.erasures: dict[str, Erasure] = {}
        """Every request that ever was, as it was last seen."""
        self.open: set[str] = set()
        """Requests that the table's properties have."""
        self.topic_of: dict[str, str] = {}
        """Incarnation of a request."""
        self.requested_ms: dict[str, int] = {}
        self.erased_ms: dict[Place, int] = {}
        """When a row lost its value, or left, because of a request."""
        self.config: Timeline[TopicConfig] = Timeline()
        self.foreign = ForeignCommits()
        self._objects = objects
        self._now = now
        self._since = since

    @property
    def head(self) -> Version:
        """The newest version."""
        return self.versions[-1] if self.versions else NO_VERSION

    def rows_at(self, version: Version) -> dict[Place, Row]:
        """The rows of a version."""
        found: dict[Place, Row] = {}
        for path in version.files:
            found |= self.rows[path]
        return found

    def log_rows(self) -> dict[Place, Row]:
        """The rows from the log starts on."""
        return {at: row for at, row in self.rows_at(self.head).items() if at[2] >= self.head.log_starts.get(at[1], 0)}

    def meant_by(self, at: Place, row: Row, *, erasures: Iterable[str] | None = None) -> list[Erasure]:
        """The requests that are about a row."""
        return [
            one
            for name in (self.erasures if erasures is None else erasures)
            if (one := self.erasures[name]).concerns(at[1], at[2])
            and self.topic_of[name] == at[0]
            and self.names(name, row.key, row.value)
        ]

    def names(self, erasure_id: str, key: bytes | None, value: bytes | None) -> bool:
        """Whether a request names a key, or has the condition that a value fulfils."""
        one, secret = self.erasures[erasure_id], self._secret
        if any(digest_of(secret, key or b"") == matcher.digest for matcher in one.wanted):
            return True
        text = None if one.where is None or value is None else condition_of(value)
        return text is not None and hide_condition(secret, parse_condition(text)) == one.where

    def may_be_erased(self, path: str) -> bool:
        """Whether the file has a value that a request means."""
        return any(row.value is not None and self.meant_by(at, row) for at, row in self.rows.get(path, {}).items())

    @property
    def _secret(self) -> bytes:
        return load_cluster(self._objects, _no_id).producer_key

    def landed(self, data: bytes) -> Landed:
        """A commit stands. Raises ``Violation``."""
        actions = [json.loads(line) for line in data.splitlines()]
        before, landed = self.head, Landed()
        if self.foreign.takes(actions):
            self.versions.append(before)
            landed.events.append("foreign commit")
            return landed
        actions = self.foreign.without_what_is_put_back(actions, before.files)
        topic_id, next_offsets, log_starts = self._says(actions, before)
        removed = self._removed(actions, before)
        files = {path: kind for path, kind in before.files.items() if path not in removed}
        rewritten: dict[Place, Row] = {}
        for add in (action["add"] for action in actions if "add" in action):
            path, is_archived = add["path"], ARCHIVE in (add.get("tags") or {})
            if path in files:
                self._archives(path, files[path], is_archived, log_starts)
                landed.events.append("archived")
            else:
                rows = self.rows[path] = rows_of(self._objects, self.root, add, str(topic_id))
                (landed.took if add["dataChange"] else rewritten).update(rows)
                if is_archived and not any(before.files[one] for one in removed):
                    raise Violation(f"{self.topic}: {path} comes into the archive from nowhere")
            files[path] = is_archived
        self.versions.append(Version(topic_id, files, next_offsets, log_starts))
        gone = {at: row for path in removed for at, row in self.rows[path].items()}
        if before.topic_id is not None and topic_id is not None:
            self._log_starts_move(before, gone)
            self._changes(removed, gone, rewritten, landed)
        elif topic_id is None and files:
            raise Violation(f"{self.topic}: it is deleted, and its table has {files}")
        self._is_once(landed)
        if topic_id is not None:
            self._erasures_are_done(landed)
        landed.events += self.foreign.events(files)
        return landed

    def _says(
        self, actions: list[dict[str, Any]], before: Version
    ) -> tuple[str | None, dict[int, int], dict[int, int]]:
        topic_id = before.topic_id
        for said in (action["metaData"] for action in actions if "metaData" in action):
            properties = said["configuration"]
            topic_id = None if properties.get("tidelog.deleted") == "true" else said["id"]
            self.config.put(self._now(), TopicConfig.from_properties(properties))
            self.pins = parse_pins(self.topic, properties)
            open_now = {one.erasure_id: one for one in parse_erasures(self.topic, properties)}
            for name in open_now.keys() - self.erasures.keys():
                self.topic_of[name], self.requested_ms[name] = said["id"], self._now()
            self.erasures |= open_now
            self.open = {*open_now}
        if topic_id is None:
            return None, {}, {}
        is_new = before.topic_id != topic_id
        next_offsets, log_starts = ({}, {}) if is_new else ({**before.next_offsets}, {**before.log_starts})
        for txn in (action["txn"] for action in actions if "txn" in action):
            kind, _, partition = txn["appId"].rpartition("-")
            if partition.isdigit() and kind in {"", "log-start"}:
                (log_starts if kind else next_offsets)[int(partition)] = txn["version"]
        return topic_id, next_offsets, log_starts

    def _removed(self, actions: list[dict[str, Any]], before: Version) -> set[str]:
        removed = set()
        for remove in (action["remove"] for action in actions if "remove" in action):
            path, is_archived = remove["path"], ARCHIVE in (remove.get("tags") or {})
            if before.files.get(path) is not is_archived:
                raise Violation(f"{self.topic}: {path} leaves, archived: {is_archived}, of {before.files}")
            removed.add(path)
        return removed

    def _archives(self, path: str, was: bool, is_archived: bool, log_starts: Mapping[int, int]) -> None:
        if not is_archived:
            raise Violation(f"{self.topic}: {path} is in the table, and is added to the log again")
        del was  # naming it again changes nothing
        above = [at for at in self.rows[path] if at[2] >= log_starts.get(at[1], 0)]
        if above:
            raise Violation(f"{self.topic}: {path} is archived, and has readable rows: {above}")

    def _log_starts_move(self, before: Version, gone: Rows) -> None:
        *_, config = self.config.between(self._now(), self._now())
        retention_ms = config.integer("retention.ms")
        for at, row in {**self.rows_at(self.head), **gone}.items():
            if not before.log_starts.get(at[1], 0) <= at[2] < self.head.log_starts.get(at[1], 0):
                continue
            if not config.deletes_old or retention_ms < 0 or not self._is_past(row.timestamp_ms + retention_ms):
                raise Violation(f"{self.topic}: {row} at {at} leaves the log too early, by {config.overrides}")

    def _is_past(self, time_ms: int) -> bool:
        """Whether that time had come by some clock."""
        return EPOCH_MS + self._now() + CLOCKS_APART_MS >= time_ms

    def _changes(self, removed: Collection[str], gone: Rows, rewritten: Rows, landed: Landed) -> None:
        if not rewritten.keys() <= gone.keys():
            raise Violation(f"{self.topic}: a rewrite adds {rewritten.keys() - gone.keys()}")
        for at, row in rewritten.items():
            was = gone[at]
            if row == was:
                continue
            is_emptied = row == was._replace(value=None) and any(one.keep == "key" for one in self.meant_by(at, was))
            if not is_emptied:
                raise Violation(f"{self.topic}: a rewrite makes {row} of {was} at {at}")
            self.erased_ms[at] = self._now()
            landed.events.append("erased")
        newest = {path: max((row.timestamp_ms for row in self.rows[path].values()), default=0) for path in removed}
        for path in removed:
            for at in self.rows[path].keys() - rewritten.keys():
                self._leaves(at, self.rows[path][at], newest[path], landed)

    def _leaves(self, at: Place, row: Row, newest_ms: int, landed: Landed) -> None:
        if any(one.keep == "nothing" for one in self.meant_by(at, row)):
            self.erased_ms[at] = self._now()
            landed.events.append("erased without a trace")
            return
        for config in self.config.between(self._since(), self._now()):
            table = config.table_retention
            if at[2] < self.head.log_starts.get(at[1], 0):
                if not table.keeps_archive:
                    landed.events.append("left the log")
                    return
                if (table.retention_ms or 0) >= 0 and self._is_past(newest_ms + (table.retention_ms or 0)):
                    landed.events.append("left the archive")
                    return
            if "compact" in config.choice("cleanup.policy") and self._is_superseded(at, row):
                landed.events.append("superseded")
                return
        raise Violation(f"{self.topic}: {row} at {at} is lost, log starts {self.head.log_starts}")

    def _is_superseded(self, at: Place, row: Row) -> bool:
        is_old = row.value is None  # a tombstone: delete.retention.ms
        return is_old or any(
            other.key == row.key and place[:2] == at[:2] and place[2] > at[2]
            for rows in self.rows.values()
            for place, other in rows.items()
        )

    def _is_once(self, landed: Landed) -> None:
        count = sum(len(self.rows[path]) for path in self.head.files)
        if count != len(self.rows_at(self.head)):
            raise Violation(f"{self.topic}: version {len(self.versions) - 1} has a row twice")
        for at in landed.took:
            if at[2] >= self.head.next_offsets.get(at[1], 0):
                raise Violation(f"{self.topic}: {at} is above the next offsets {self.head.next_offsets}")

    def _erasures_are_done(self, landed: Landed) -> None:
        done = [name for name in self.open if self.erasures[name].is_rewritten]
        if not done:
            return
        for at, row in self.rows_at(self.head).items():
            if row.value is not None and self.meant_by(at, row, erasures=done):
                raise Violation(f"{self.topic}: {row} at {at} is in the table, and {done} are done")
        landed.events.append("carried out")

    def checkpoint(self, key: str) -> Iterator[str]:
        """A checkpoint stands, or a part of one: it names the files of its version. Yield what is counted."""
        is_part_2 = layout.checkpoint_version(key) is None
        version = layout.archive_part_version(key) if is_part_2 else layout.checkpoint_version(key)
        if version is None or version >= len(self.versions):
            return
        expected = self.versions[version]
        if expected.topic_id is None:
            return  # what the table of a deleted topic has is nobody's
        adds = [row["add"] for row in pq.read_table(io.BytesIO(self._objects.get(key)), columns=["add"]).to_pylist()]
        found = {add["path"]: ARCHIVE in dict(add["tags"] or ()) for add in adds if add and add["path"]}
        wanted = {path: is_archived for path, is_archived in expected.files.items() if is_archived is is_part_2}
        if found != wanted:
            raise Violation(f"{self.topic}: {key} names {found}, and its version has {expected.files}")
        if is_part_2:
            yield "checkpoint of the archive"
        elif expected.paths(archived=True):
            part = layout.table_checkpoint_part_key(self.root, version, 2)
            if key != layout.table_checkpoint_part_key(self.root, version, 1) or not self._has(part):
                raise Violation(f"{self.topic}: {key} stands, and its archive does not")

    def _has(self, key: str) -> bool:
        return any(info.key == key for info in self._objects.list(key))


def rows_of(objects: MemoryStore, root: str, add: Mapping[str, Any], topic_id: str) -> dict[Place, Row]:
    """The rows of a file, of which the log tells the number."""
    data = objects.get(f"{root}{add['path']}")
    found = read_rows(data, topic_id)
    if json.loads(add["stats"])["numRecords"] != len(found) or len(data) != add["size"]:
        raise Violation(f"the log says {add} of a file with {found}")
    return found


def read_rows(data: bytes, topic_id: str) -> dict[Place, Row]:
    """The rows of a segment."""
    names = ["partition", "offset", "key", "value", "timestamp"]
    table = pq.read_table(io.BytesIO(data), columns=names)
    times = table["timestamp"].cast("int64").to_pylist()
    columns = (table[name].to_pylist() for name in names[:-1])
    return {
        (topic_id, partition, offset): Row(key, value, time_us // 1000)
        for partition, offset, key, value, time_us in zip(*columns, times, strict=True)
    }


def _no_id() -> str:
    raise Violation("there are requests to erase, and no key by which they name anybody")
