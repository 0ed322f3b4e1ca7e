"""What is true of a topic whose table has an archive, pins and clones, and of which people are erased (G1 to G9).

1. A record has one offset, the next one of its partition, and its value, in each answer and in the table, until a request to
   erase is about it. Who reads on gets each record once that is live.
2. What a request erased is in no answer to a question that was asked ``BOUND_MS`` after the rewrite's commit; and once the
   request is over, in no object.
3. A file in the table is not deleted; nor is one of a pinned version, its commit and its checkpoint, unless a request is about
   it. A pin that was acknowledged is there until it expires or is deleted, and a request that was acknowledged until it is over.
4. A clone has the rows, log starts and next offsets of one version of its source, and erases what its source was asked to.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from log_format import layout
from log_format.checkpoints.archive_rows import archived_files
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import plain_path
from log_format.inspection.verify import verify_topic
from log_format.stores.memory import MemoryStore
from log_format.topic.erasures import note_key, notes_prefix
from tests.simulation.simulated.faults import MINUTE_MS
from tests.simulation.simulated.scheduler import EPOCH_MS, MachineClock
from tests.simulation.simulated.truth import Place, Violation
from tests.simulation.simulated_table.table import CLOCKS_APART_MS, Row, Table, Version, read_rows
from tests.simulation.simulated_typed.stored import JournalPlace, rows_at_journal
from tests.simulation.simulated_typed.values import Sent

TOPIC = "t"
BOUND_MS = MINUTE_MS
"""For how long a gateway may serve what a rewrite erased."""


@dataclass(slots=True)
class Clone:
    """A clone, and what its maker was told. ``is_told``: it was acknowledged."""

    table: Table
    begun_ms: int
    made_ms: int | None = None
    is_told: bool = False
    sources: list[int] = field(default_factory=list)
    """Versions of the source that are as it."""


class Accepted(NamedTuple):
    """A request to erase that was acknowledged. ``began_ms``: when its caller asked."""

    topic_id: str
    began_ms: int


class TableJudge:
    """Follows every object. ``upkeep_since_ms``: since when the oldest round of maintenance may be under way."""

    def __init__(
        self, objects: MemoryStore, clock: MachineClock, now: Callable[[], int], *, upkeep_since_ms: Callable[[], int]
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._now = now
        self._since = upkeep_since_ms
        self.sent: dict[bytes, Sent] = {}
        self.seen: Counter[str] = Counter()
        self.table = Table(objects, TOPIC, now, upkeep_since_ms)
        self.clones: dict[str, Clone] = {}
        self.pinned: dict[str, tuple[int, int | None, str]] = {}
        """Pins that were acknowledged: version, expiry, incarnation."""
        self.accepted: dict[str, Accepted] = {}
        """Requests to erase that were acknowledged."""
        self._values: dict[Place, bytes] = {}
        self._at_journal: dict[Place, JournalPlace] = {}
        self._in_journals: dict[str, list[Place]] = {}
        """By objects of journals, perhaps with places of others of the same commit."""

    @property
    def is_drained(self) -> bool:
        """Whether the topic's table has all that journals have of it."""
        return not any(place[0] == self.table.head.topic_id for place in self._at_journal)

    def refused(self, sent: list[Sent], began_ms: int, code: str) -> None:
        """A request was refused for its records: none is."""
        raise Violation(f"{sent} were refused at {began_ms}: {code}")

    # What is written and deleted

    def written(self, key: str, data: bytes) -> None:
        """An object stands."""
        if key.startswith(layout.JOURNALS) and layout.commit_version(key) is not None:
            root = key[: key.index("_delta_log/")]
            adds = [action["add"]["path"] for action in map(json.loads, data.splitlines()) if "add" in action]
            for place, value in rows_at_journal(self._objects, root, data):
                for path in adds:
                    self._in_journals.setdefault(f"{root}{path}", []).append(place)
                self._has_value(place, value)
                self.sent[value].committed_ms.append(self._now())
                self._at_journal[place] = JournalPlace(value, self._now())
                self.seen["by a journal"] += 1
        for name, table in self._tables():
            if key.startswith(notes_prefix(name)) and _says_gone(data):
                self._is_gone(table, json.loads(data)["erasure"]["erasure_id"])
            elif key.startswith(layout.table_log_prefix(table.root)):
                if layout.commit_version(key) is not None:
                    self._committed(name, table, data)
                else:
                    self.seen.update(table.checkpoint(key))

    def _tables(self) -> list[tuple[str, Table]]:
        return [(TOPIC, self.table), *((name, one.table) for name, one in self.clones.items())]

    def _committed(self, name: str, table: Table, data: bytes) -> None:
        before = table.head
        landed = table.landed(data)
        self.seen.update(landed.events)
        head = table.head
        if name != TOPIC:
            if before.topic_id is None and head.topic_id is not None:
                self._cloned(self.clones[name])
            return
        for place, row in landed.took.items():
            at_journal = self._at_journal.pop(place, None)
            self._has_value(place, row.value or b"")
            sent = self.sent[row.value or b""]
            if row.key != sent.key:
                raise Violation(f"{sent} has the key {row.key!r}")
            if at_journal is None:
                sent.committed_ms.append(self._now())
            else:
                self.seen["drained"] += 1
        if before.topic_id == head.topic_id is not None:
            self._in_turn(before, head, landed.took.keys())
        self._keeps_promises()

    def _row_of(self, place: Place) -> Row:
        """A record as it was sent."""
        value = self._values[place]
        return Row(self.sent[value].key, value, 0)

    def _has_value(self, place: Place, value: bytes) -> None:
        if self._values.setdefault(place, value) != value:
            raise Violation(f"{place} has {value!r} and {self._values[place]!r}")

    def _in_turn(self, before: Version, head: Version, took: Any) -> None:
        for partition in head.next_offsets:
            offsets = sorted(at[2] for at in took if at[1] == partition)
            if offsets != [*range(before.next_offsets.get(partition, 0), head.next_offsets[partition])]:
                raise Violation(f"a commit appends {offsets} to partition {partition} of {before.next_offsets}")

    def _keeps_promises(self) -> None:
        """Pins and requests that were acknowledged are there."""
        table, now_ms = self.table, EPOCH_MS + self._now()
        names = {pin.name: pin for pin in table.pins}
        for name, (version, expires_ms, topic_id) in self.pinned.items():
            if topic_id != table.head.topic_id or (expires_ms is not None and expires_ms < now_ms + CLOCKS_APART_MS):
                continue
            if name not in names or names[name].version != version:
                raise Violation(f"pin {name} of version {version} is gone: {names}")
        for erasure_id, (topic_id, _) in self.accepted.items():
            is_over = _says_gone(self._objects.get(note_key(TOPIC, erasure_id)))
            if topic_id == table.head.topic_id and erasure_id not in table.open and not is_over:
                raise Violation(f"request {erasure_id} is gone, and not over")

    def _is_gone(self, table: Table, erasure_id: str) -> None:
        """A request is over: no object has what it means."""
        self.seen["gone"] += 1
        for below in (f"{table.root}{layout.SEGMENTS}", f"{table.root}{layout.COMPACTED}"):
            for info in self._objects.list(below):
                path = info.key.removeprefix(table.root)
                rows = table.rows.get(path) or read_rows(self._objects.get(info.key), table.topic_of[erasure_id])
                for at, row in rows.items():
                    if row.value is not None and table.meant_by(at, row, erasures=[erasure_id]):
                        raise Violation(f"{path} has {row}, and request {erasure_id} is over")
        for info in self._objects.list(layout.JOURNALS):
            for at in self._in_journals.get(info.key, ()):
                if table is self.table and table.meant_by(at, self._row_of(at), erasures=[erasure_id]):
                    raise Violation(f"{info.key} has {at}, and request {erasure_id} is over")

    def deleted(self, key: str) -> None:
        """An object is gone."""
        for name, table in self._tables():
            if not key.startswith(table.root):
                continue
            path = key.removeprefix(table.root)
            if path in table.head.files:
                raise Violation(f"{key} is deleted, and in the table")
            version = _version_of(key) if key.startswith(layout.table_log_prefix(table.root)) else None
            for pin in table.pins:
                if version == pin.version:
                    raise Violation(f"{key} is deleted, which {pin} of {name} needs")
                if path in table.versions[pin.version].files and not table.may_be_erased(path):
                    raise Violation(f"{key} is deleted, which {pin} of {name} has")
            if path in table.rows:
                self.seen["file deleted"] += 1
            elif version is not None:
                self.seen["log cleaned"] += 1

    # Clones

    def _cloned(self, clone: Clone) -> None:
        """A clone stands: it is as a version of its source."""
        clone.made_ms = self._now()
        source, made = self.table, clone.table.head
        rows = {at[1:]: row for at, row in clone.table.rows_at(made).items()}
        for number, version in enumerate(source.versions):
            offsets = (version.next_offsets, version.log_starts)
            if version.topic_id is None or not _agree(offsets, (made.next_offsets, made.log_starts)):
                continue
            if {at[1:]: row for at, row in source.rows_at(version).items()} == rows:
                clone.sources.append(number)
        if not clone.sources:
            raise Violation(f"{clone.table.topic} has {rows} at {made}, as no version of its source")
        self.seen["cloned"] += 1
        self.seen["clone with requests"] += bool(clone.table.open)

    def clone_told(self, name: str, source_version: int) -> None:
        """The maker of a clone is told what it is of."""
        clone = self.clones[name]
        clone.is_told = True
        if source_version not in clone.sources:
            raise Violation(f"{name} is said to be version {source_version}, and is {clone.sources}")

    # Readers

    def fetched(self, partition: int, offset: int, body: Any, asked_ms: int) -> None:
        """A reader that asked for an offset got this."""
        topic_id, next_offset = body["topic_id"], body["next_offset"]
        found: dict[int, bytes | None] = {}
        for record in body["records"]:
            at = (topic_id, partition, record["offset"])
            if not offset <= at[2] < next_offset or at[2] <= max(found, default=-1):
                raise Violation(f"{at} is in an answer to {offset}, up to {next_offset}, behind {[*found]}")
            value = found[at[2]] = _value(record)
            if at not in self._values or value not in {None, self._values[at]}:
                raise Violation(f"{at} is {value!r} to a reader, and {self._values.get(at)!r}")
            erased_ms = self.table.erased_ms.get(at)
            if value is None and erased_ms is None:
                raise Violation(f"{at} is erased to a reader, and nobody asked")
            if value is not None and erased_ms is not None and asked_ms > erased_ms + BOUND_MS:
                raise Violation(f"{at} was erased at {erased_ms}, and who asks at {asked_ms} gets {value!r}")
            self.seen["read erased"] += value is None
        self.seen["read"] += len(found)
        if topic_id != self.table.head.topic_id:
            return
        live = self.table.log_rows().keys() | self._at_journal.keys()
        for missing in set(range(offset, next_offset)) - found.keys():
            if (topic_id, partition, missing) in live:
                raise Violation(f"who asks for {offset} of partition {partition} does not get {missing}: {[*found]}")

    def read_whole(self, partition: int, found: dict[int, bytes | None]) -> None:
        """At the end, a reader got all of a partition."""
        wanted = {at[2]: row.value for at, row in self.table.log_rows().items() if at[1] == partition}
        if found != wanted:
            raise Violation(f"partition {partition} has {wanted}, and a reader gets {found}")

    # The end

    def end(self) -> None:
        """Everything has come to rest, and maintenance got through."""
        for name, table in self._tables():
            if table.head.topic_id is None:
                continue
            self._table_ends(name, table)
            if table.open:
                raise Violation(f"{name}: requests are not over: {table.open}")
        for clone in self.clones.values():
            self._clone_ends(clone)
        for erasure_id, accepted in self.accepted.items():
            self._is_not_published(erasure_id, accepted)

    def _is_not_published(self, erasure_id: str, accepted: Accepted) -> None:
        """A delayed record that waited when a request was made, and is meant, does not come later."""
        ends = self.table.erasures[erasure_id].ends
        for at, value in self._values.items():
            sent = self.sent[value]
            if not sent.is_promised or sent.is_staged or sent.acknowledged_ms is None:
                continue
            is_later = at[0] == accepted.topic_id and at[2] >= ends[at[1]]
            if is_later and sent.acknowledged_ms < accepted.began_ms and self.table.names(erasure_id, sent.key, value):
                raise Violation(f"{sent} waited, and is at {at}, behind request {erasure_id} at {accepted.began_ms}")

    def _table_ends(self, name: str, table: Table) -> None:
        state = TopicLog(self._objects, name, self._clock).refresh()
        table.foreign.end(name, table.head.files)
        in_log = {segment.path for segment in state.manifest.segments()}
        files = archived_files(self._objects, state, self._clock.now_ms())
        archived = {plain_path(path) for path in files.column("path").to_pylist()}
        if in_log != table.head.paths(archived=False) or archived != table.head.paths(archived=True):
            raise Violation(f"{name}: the state has {in_log} and {archived}, the commits {table.head.files}")
        if state.archive.counts != (len(archived), sum(files.column("size").to_pylist())):
            raise Violation(f"{name}: {state.archive} counts {archived}")
        problems = verify_topic(self._objects, name, clock=self._clock).problems
        if problems:
            raise Violation(f"{name}: {problems}")
        stored = {info.key for info in self._objects.list(table.root)}
        for pin in table.pins:
            keys = layout.table_checkpoint_keys(table.root, pin.version)
            if layout.table_commit_key(table.root, pin.version) not in stored or stored.isdisjoint(keys):
                raise Violation(f"{name}: {pin} can't be read")
            gone = {path for path in table.versions[pin.version].files if f"{table.root}{path}" not in stored}
            if any(not table.may_be_erased(path) for path in gone):
                raise Violation(f"{name}: {pin} lacks {gone}")
            self.seen["pin at the end"] += 1
            self.seen["pin without what was erased"] += bool(gone)

    def _clone_ends(self, clone: Clone) -> None:
        """What its source was asked to erase before it was made is erased. A request that came while it was being made, by a
        gateway that ended then, may be lost (decision 110)."""
        source, head = self.table, clone.table.head
        if clone.made_ms is None or head.topic_id is None:
            return
        source_id = source.versions[clone.sources[0]].topic_id
        until_ms = clone.made_ms if clone.is_told else clone.begun_ms
        asked = [
            name
            for name, at_ms in source.requested_ms.items()
            if at_ms < until_ms and source.topic_of[name] == source_id
        ]
        for at, row in clone.table.rows_at(head).items():
            if row.value is not None and source.meant_by((str(source_id), *at[1:]), row, erasures=asked):
                raise Violation(f"{clone.table.topic} has {row} at {at}, which {asked} erased")


def _says_gone(note: bytes) -> bool:
    """Whether the note of a request says that nothing of it is left."""
    return json.loads(note).get("gone_ms") is not None


def _version_of(key: str) -> int | None:
    """The version of a commit, a checkpoint or a part of one."""
    found = (layout.commit_version(key), layout.checkpoint_version(key), layout.archive_part_version(key))
    return next((version for version in found if version is not None), None)


def _agree(some: Any, others: Any) -> bool:
    """Whether offsets are the same; 0 where there is none."""
    return all(
        one.get(partition, 0) == other.get(partition, 0)
        for one, other in zip(some, others, strict=True)
        for partition in {*one, *other}
    )


def _value(record: dict[str, Any]) -> bytes | None:
    if record.get("value_base64") is not None:
        return base64.b64decode(record["value_base64"])
    value = record.get("value")
    return None if value is None else str(value).encode()
