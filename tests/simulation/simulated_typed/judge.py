"""What is true of a typed topic: its commits, those of journals and the registry's, and whether each record has the columns that
it must have.

1. A record of an untyped topic has no columns. One of a typed topic has the members that a schema makes of it which was in force
   when it was accepted or appended; or it has none, and the reason, if such a schema forbids it. So it is at a journal, too: when
   the drain comes does not matter to a record that was judged.
2. A forbidden record is there only where the topic marks, or where it was promised before: in a transaction, or delayed.
3. A column keeps its type, and a segment has no column that its table does not have.
4. A subject of which a topic has columns gets no version with another type.
5. Nobody is refused, though his records fit what the store has had since before he asked.
6. A rewrite loses no record but one that a later one of its key supersedes, and changes none, unless it gives columns to one that
   had none and that no schema had judged, where the topic asked for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from compaction.report import Totals
from gateway.system_tables.schemas import SEEN_MS_MAX
from log_format import layout
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.log import TableLog
from log_format.journal.drain import REGISTRY_WAIT_MS_MAX
from log_format.schemas.state import SchemasState, schemas_table
from log_format.stores.memory import MemoryStore
from log_format.topic.config import Subjects
from log_format.topic.state import TopicState
from tests.simulation.simulated.faults import MINUTE_MS
from tests.simulation.simulated.scheduler import MachineClock
from tests.simulation.simulated.truth import Place, Violation
from tests.simulation.simulated_typed.stored import JournalPlace, Row, rows_at_journal, rows_of
from tests.simulation.simulated_typed.values import Sent

TOPIC = "t"
SUBJECTS = ("a", "b")
DRAIN_WAIT_MS = REGISTRY_WAIT_MS_MAX - MINUTE_MS
"""How long a drain waits for a registry that it can't read, less what clocks differ by."""
_ROOT = layout.topic_root(TOPIC)
_REGISTRY = layout.table_log_prefix(schemas_table().root)
_UNJUDGED = "the topic's schemas were not known when the record was appended"

T = TypeVar("T")


class Timeline(Generic[T]):
    """Values with the time from which each was in force."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, T]] = []

    def put(self, now_ms: int, value: T) -> None:
        """From now on it is this."""
        self._changes.append((now_ms, value))

    def between(self, from_ms: int, until_ms: int) -> Iterator[T]:
        """All that was in force at some moment of this time."""
        for number, (since_ms, value) in enumerate(self._changes):
            ended = number + 1 < len(self._changes) and self._changes[number + 1][0] < from_ms
            if since_ms <= until_ms and not ended:
                yield value


@dataclass(frozen=True, slots=True)
class Settings:
    """What a topic says of its records."""

    subjects: Subjects
    is_marking: bool
    is_backfilled: bool


class TypedJudge:
    """Follows every commit.

    Args:
        objects: what is in the store.
        clock: of the judge's own reads.
        now: the time of the history.
        is_strict: nothing fails, so what a gateway knows of the registry is a second old at most.
        upkeep_since_ms: since when the oldest round of maintenance may be under way.
    """

    def __init__(
        self,
        objects: MemoryStore,
        clock: MachineClock,
        now: Callable[[], int],
        *,
        is_strict: bool,
        upkeep_since_ms: Callable[[], int],
    ) -> None:
        self._objects = objects
        self._now = now
        self._is_strict = is_strict
        self._upkeep_since_ms = upkeep_since_ms
        self._topic = TopicLog(objects, TOPIC, clock)
        self._registry_log = TableLog(objects, schemas_table(), clock)
        self._at_journal: dict[Place, JournalPlace] = {}
        """What journals gave an offset to, and no drain has brought."""
        self._files: dict[str, dict[Place, Row]] = {}
        """The topic's table."""
        self.registry: Timeline[SchemasState] = Timeline()
        self.settings: Timeline[Settings] = Timeline()
        self.sent: dict[bytes, Sent] = {}
        self.seen: list[str] = []

    @property
    def is_drained(self) -> bool:
        """Whether the topic's table has all that journals have of it."""
        return not any(place[0] == self._topic.state.topic_id for place in self._at_journal)

    def written(self, key: str, data: bytes) -> None:
        """An object stands."""
        if layout.commit_version(key) is None:
            return
        if key.startswith(_REGISTRY):
            self._registered(self._registry_log.refresh())
        elif key.startswith(_ROOT):
            before = self._topic.state
            self._committed(before, self._topic.refresh(), data)
        elif key.startswith(layout.JOURNALS):
            root = key[: key.index("_delta_log/")]
            for place, value in rows_at_journal(self._objects, root, data):
                self.sent[value].committed_ms.append(self._now())
                self._at_journal[place] = JournalPlace(value, self._now())
                self.seen.append("by a journal")

    def _registered(self, state: SchemasState) -> None:
        self.registry.put(self._now(), state)
        for subject in SUBJECTS:
            for one in state.versions(subject, deleted=True):
                if json.loads(one.schema.text)["fields"][0]["type"] != "long" and state.config(subject).has_columns:
                    raise Violation(f"version {one.version} of {subject} gives a column another type")

    def _committed(self, before: TopicState, state: TopicState, data: bytes) -> None:
        if state.topic_id != before.topic_id or not state.exists:
            self._files.clear()
        if not state.exists:
            return
        if (
            before.exists
            and before.topic_id == state.topic_id
            and before.columns.merged_with(state.columns) != state.columns
        ):
            raise Violation(f"version {state.version} changes the columns {before.columns} to {state.columns}")
        config = state.config
        is_marking, is_backfilled = config.choice("data.on.error") == "mark", config.choice("data.backfill") == "on"
        self.settings.put(self._now(), Settings(config.subjects, is_marking, is_backfilled))
        actions = [json.loads(line) for line in data.splitlines()]
        removed: dict[Place, Row] = {}
        for path in (action["remove"]["path"] for action in actions if "remove" in action):
            removed |= self._files.pop(path)
        rewritten: dict[Place, Row] = {}
        for add in (action["add"] for action in actions if "add" in action):
            rows = rows_of(self._objects, _ROOT, add, state)
            self._files[add["path"]] = rows
            if add["dataChange"]:
                self._took(rows, config.subjects)
            else:
                rewritten |= rows
        if removed:
            self._rewrote(removed, rewritten)

    def _took(self, rows: dict[Place, Row], subjects: Subjects) -> None:
        """Rows that are new in the table."""
        now_ms = self._now()
        since_ms = min((one.at_ms for at, one in self._at_journal.items() if at in rows), default=now_ms)
        for place, row in rows.items():
            sent, at_journal = self.sent[row.value], self._at_journal.pop(place, None)
            if row.key != sent.key:
                raise Violation(f"{sent} has the key {row.key!r}")
            if at_journal is None:
                sent.committed_ms.append(now_ms)
                self._check(sent, row, subjects, now_ms)
            elif at_journal.value != row.value:
                raise Violation(f"{place} has {row.value!r} in the table, {at_journal.value!r} at its journal")
            else:
                self.seen.append("drained")
                if row.error == _UNJUDGED and now_ms - since_ms > DRAIN_WAIT_MS and not self._is_strict:
                    continue  # the registry could not be read for too long
                self._check(sent, row, subjects, at_journal.at_ms)

    def _check(self, sent: Sent, row: Row, subjects: Subjects, judged_ms: int) -> None:
        """A row is what it may be by what was in force at some moment until ``judged_ms``; a promised one, until now."""
        if not subjects.are_set:
            if row.data is not None or row.error is not None:
                raise Violation(f"{sent} has columns, and the topic no schema: {row}")
            return
        judged_ms = self._now() if sent.is_promised else judged_ms
        # A delayed record that is due by now is appended as the door judged it.
        from_ms = sent.began_ms if sent.is_staged else sent.began_ms - SEEN_MS_MAX if self._is_strict else 0
        rows, is_unfit, is_unknown = self._verdicts(sent, subjects.value, from_ms, judged_ms)
        if row.error is None:
            if row.found not in rows:
                raise Violation(f"{sent} has {row}, and not one of {rows}")
            self.seen.append("typed late" if sent.is_promised else "typed")
        elif row.data is not None or not (is_unfit or (is_unknown and sent.is_promised)):
            raise Violation(f"{sent} is {row}, and is of each schema: {rows}")
        elif not sent.is_promised and not any(
            one.is_marking for one in self.settings.between(sent.began_ms, judged_ms)
        ):
            raise Violation(f"{sent} is forbidden, and in a topic that refuses such records: {row.error!r}")
        else:
            self.seen.append(
                "not judged" if row.error == _UNJUDGED else "marked late" if sent.is_promised else "marked"
            )

    def _rewrote(self, removed: dict[Place, Row], rewritten: dict[Place, Row]) -> None:
        """Rows that a rewrite put in the place of others."""
        if not rewritten.keys() <= removed.keys():
            raise Violation(f"a rewrite adds {rewritten.keys() - removed.keys()}")
        for place in removed.keys() - rewritten.keys():
            if not self._is_superseded(place, removed[place]):
                raise Violation(f"a rewrite loses {removed[place]} at {place}")
            self.seen.append("superseded")
        since_ms = self._upkeep_since_ms() if self._is_strict else 0
        asked = [one for one in self.settings.between(since_ms, self._now()) if one.is_backfilled]
        for place, row in rewritten.items():
            was = removed[place]
            if row == was:
                continue
            if (
                (row.key, row.value) != (was.key, was.value)
                or was.data is not None
                or was.error not in {None, _UNJUDGED}
            ):
                raise Violation(f"a rewrite makes {row} of {was} at {place}")
            sent = self.sent[row.value]
            verdicts = [
                self._verdicts(sent, one.subjects.value, since_ms, self._now()) for one in asked if one.subjects.are_set
            ]
            if not any(is_unfit if row.error else row.found in rows for rows, is_unfit, _ in verdicts):
                raise Violation(f"a rewrite makes {row} of {was} at {place}, by these verdicts: {verdicts}")
            self.seen.append("marked afterwards" if row.error else "typed afterwards")

    def _is_superseded(self, place: Place, row: Row) -> bool:
        topic_id, partition, offset = place
        return any(
            other.key == row.key and at[:2] == (topic_id, partition) and at[2] > offset
            for rows in self._files.values()
            for at, other in rows.items()
        )

    def _verdicts(self, sent: Sent, subject: str, from_ms: int, until_ms: int) -> tuple[list[Any], bool, bool]:
        """The rows that the record may be, without nulls; whether a schema forbids it; whether there was none."""
        rows: list[Any] = []
        is_unfit = is_unknown = False
        for state in self.registry.between(from_ms, until_ms):
            row, is_known = verdict(sent, state, subject)
            is_unknown = is_unknown or not is_known
            is_unfit = is_unfit or (is_known and row is None)
            if row is not None:
                rows.append({name: value for name, value in row.items() if value is not None})
        return rows, is_unfit, is_unknown

    def refused(self, sent: list[Sent], began_ms: int, code: str) -> None:
        """A request was refused for its records or its topic's schemas."""
        now_ms = self._now()
        for one in sent:
            if any(at_ms < began_ms for at_ms in one.committed_ms):
                raise Violation(f"{one} is in the topic, and its repeat was refused: {code}")
        settings = {(one.subjects, one.is_marking) for one in self.settings.between(began_ms, now_ms)}
        states = list(self.registry.between(began_ms, now_ms))
        if not self._is_strict or len(settings) != 1:
            return
        ((subjects, is_marking),) = settings
        subject = subjects.value
        if len({tuple(state.numbers(subject, deleted=True)) for state in states}) != 1:
            return
        verdicts = [verdict(one, states[0], subject) for one in sent]
        if is_marking and all(is_known for _, is_known in verdicts):
            raise Violation(f"{sent} were refused by a topic that marks: {code}")
        if all(row is not None and is_known for row, is_known in verdicts):
            raise Violation(f"{sent} are of the schema, and were refused: {code}")

    def end(self, totals: Totals) -> None:
        """At the end the table's files are those that the log names, and older records have columns where it was asked for.

        ``totals``: of a round of maintenance while nothing is wrong.
        """
        state = self._topic.state
        if not state.exists:
            return
        paths = {segment.path for segment in state.manifest.segments()}
        if paths != self._files.keys():
            raise Violation(f"the log names {paths}, and has had {self._files.keys()}")
        subjects, (registry,) = state.config.subjects, self.registry.between(self._now(), self._now())
        if state.config.choice("data.backfill") == "on" and subjects.are_set and registry.latest(subjects.value):
            bare = [row for rows in self._files.values() for row in rows.values() if row.data is None and not row.error]
            if bare or totals.untyped_segments:
                raise Violation(f"{totals.untyped_segments} segments are left without columns: {bare}")


def verdict(sent: Sent, state: SchemasState, subject: str) -> tuple[dict[str, Any] | None, bool]:
    """The members that a state of the registry gives a value, None where it forbids it; and whether the subject has a schema.

    Without one, as after its deletion, a value still is what the deleted version that it names makes of it.
    """
    newest = state.latest(subject)
    if sent.schema_id is None:
        return (None, False) if newest is None else (sent.row(newest.schema.text), True)
    version = state.version_of(subject, sent.schema_id, deleted=True)
    named = None if version is None else state.registered(subject, version, deleted=True)
    return None if named is None else sent.row(named.schema.text), newest is not None
