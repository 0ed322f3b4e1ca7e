"""What is true of a typed topic: its commits and the registry's, and whether each record has the columns that it must have.

1. A record of an untyped topic has no columns. One of a typed topic has the members that a schema makes of it which was in force
   when it was accepted or appended; or it has none, and the reason, if such a schema forbids it.
2. A forbidden record is there only where the topic marks, or where it was promised before: in a transaction, or delayed.
3. A column keeps its type, and a segment has no column that its table does not have.
4. A subject of which a topic has columns gets no version with another type.
5. Nobody is refused, though his records fit what the store has had since before he asked.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow.parquet as pq

from gateway.system_tables.schemas import SEEN_MS_MAX
from log_format import layout
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.log import TableLog
from log_format.records.typed_columns import DATA, DATA_ERROR, TypeConflict, typed_columns
from log_format.schemas.state import SchemasState, schemas_table
from log_format.stores.memory import MemoryStore
from log_format.topic.config import Subjects
from log_format.topic.state import TopicState
from tests.simulation.simulated.scheduler import MachineClock
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_typed.values import Sent

TOPIC = "t"
SUBJECTS = ("a", "b")
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


class TypedJudge:
    """Follows every commit. ``is_strict``: nothing fails, so what a gateway knows of the registry is a second old at most."""

    def __init__(self, objects: MemoryStore, clock: MachineClock, now: Callable[[], int], *, is_strict: bool) -> None:
        self._objects = objects
        self._now = now
        self._is_strict = is_strict
        self._topic = TopicLog(objects, TOPIC, clock)
        self._registry_log = TableLog(objects, schemas_table(), clock)
        self.registry: Timeline[SchemasState] = Timeline()
        self.settings: Timeline[Settings] = Timeline()
        self.sent: dict[bytes, Sent] = {}
        self.seen: list[str] = []

    def written(self, key: str, data: bytes) -> None:
        """An object stands."""
        if layout.commit_version(key) is None:
            return
        if key.startswith(_REGISTRY):
            self._registered(self._registry_log.refresh())
        elif key.startswith(_ROOT):
            before = self._topic.state
            self._appended(before, self._topic.refresh(), data)

    def _registered(self, state: SchemasState) -> None:
        self.registry.put(self._now(), state)
        for subject in SUBJECTS:
            for one in state.versions(subject, deleted=True):
                if json.loads(one.schema.text)["fields"][0]["type"] != "long" and state.config(subject).has_columns:
                    raise Violation(f"version {one.version} of {subject} gives a column another type")

    def _appended(self, before: TopicState, state: TopicState, data: bytes) -> None:
        if not state.exists:
            return
        if (
            before.exists
            and before.topic_id == state.topic_id
            and before.columns.merged_with(state.columns) != state.columns
        ):
            raise Violation(f"version {state.version} changes the columns {before.columns} to {state.columns}")
        settings = Settings(state.config.subjects, state.config.choice("data.on.error") == "mark")
        self.settings.put(self._now(), settings)
        for line in data.splitlines():
            if (add := json.loads(line).get("add")) is not None:
                self._took(add["path"], state, settings.subjects)

    def _took(self, path: str, state: TopicState, subjects: Subjects) -> None:
        table = pq.read_table(io.BytesIO(self._objects.get(_ROOT + path)))
        try:
            is_of_table = state.columns.merged_with(typed_columns(table.schema)) == state.columns
        except TypeConflict:
            is_of_table = False
        if not is_of_table:
            raise Violation(f"{path} has columns that its table does not have: {table.schema}")
        names = set(table.schema.names)
        for row in table.select([name for name in ("value", DATA, DATA_ERROR) if name in names]).to_pylist():
            sent = self.sent[row["value"]]
            sent.committed_ms.append(self._now())
            self._check(sent, row.get(DATA), row.get(DATA_ERROR), subjects)

    def _check(self, sent: Sent, data: Any, error: str | None, subjects: Subjects) -> None:
        found = {name: value for name, value in (data or {}).items() if value is not None} if data is not None else None
        if not subjects.are_set:
            if data is not None or error is not None:
                raise Violation(f"{sent} has columns, and the topic no schema: {data}, {error}")
            return
        rows, is_unfit, is_unknown = self._verdicts(sent, subjects.value)
        if error is None:
            if found not in rows:
                raise Violation(f"{sent} has {data}, and not one of {rows}")
            self.seen.append("typed late" if sent.is_promised else "typed")
        elif data is not None or not (is_unfit or (is_unknown and sent.is_promised)):
            raise Violation(f"{sent} has {data} and {error!r}, and is of each schema: {rows}")
        elif not sent.is_promised and not any(
            one.is_marking for one in self.settings.between(sent.began_ms, self._now())
        ):
            raise Violation(f"{sent} is forbidden, and in a topic that refuses such records: {error!r}")
        else:
            self.seen.append("not judged" if error == _UNJUDGED else "marked late" if sent.is_promised else "marked")

    def _verdicts(self, sent: Sent, subject: str) -> tuple[list[Any], bool, bool]:
        """The rows that the record may be, without nulls; whether a schema forbids it; whether there was none."""
        now_ms = self._now()
        from_ms = sent.began_ms if sent.is_promised else sent.began_ms - SEEN_MS_MAX if self._is_strict else 0
        rows: list[Any] = []
        is_unfit = is_unknown = False
        for state in self.registry.between(from_ms, now_ms):
            row, is_known = verdict(sent, state, subject)
            if not is_known:
                is_unknown = True
            elif row is None:
                is_unfit = True
            else:
                rows.append({name: value for name, value in row.items() if value is not None})
        return rows, is_unfit, is_unknown

    def refused(self, sent: list[Sent], began_ms: int, code: str) -> None:
        """A request was refused for its records or its topic's schemas."""
        now_ms = self._now()
        for one in sent:
            if any(at_ms < began_ms for at_ms in one.committed_ms):
                raise Violation(f"{one} is in the topic, and its repeat was refused: {code}")
        settings = set(self.settings.between(began_ms, now_ms))
        states = list(self.registry.between(began_ms, now_ms))
        if not self._is_strict or len(settings) != 1:
            return
        (only,) = settings
        subject = only.subjects.value
        if len({tuple(state.numbers(subject, deleted=True)) for state in states}) != 1:
            return
        verdicts = [verdict(one, states[0], subject) for one in sent]
        if only.is_marking and all(is_known for _, is_known in verdicts):
            raise Violation(f"{sent} were refused by a topic that marks: {code}")
        if all(row is not None for row, _ in verdicts):
            raise Violation(f"{sent} are of the schema, and were refused: {code}")


def verdict(sent: Sent, state: SchemasState, subject: str) -> tuple[dict[str, Any] | None, bool]:
    """The members that a state of the registry gives a value, None where it forbids it; and whether the subject has a schema."""
    newest = state.latest(subject)
    if newest is None:
        return None, False
    if sent.schema_id is None:
        return sent.row(newest.schema.text), True
    version = state.version_of(subject, sent.schema_id, deleted=True)
    named = None if version is None else state.registered(subject, version, deleted=True)
    return None if named is None else sent.row(named.schema.text), True
