"""The readers of a topic's schemas, made of what the registry's table has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.compute as pc

from log_format.clock import Clock, SystemClock
from log_format.delta.log import TableLog
from log_format.errors import BackOff, CorruptData, ErrorCode, RequestRefused, StoreUnavailable
from log_format.records.canonical_json import render
from log_format.records.typed_columns import DATA, TypeConflict
from log_format.schemas.columns.codec import RecordReaders, SchemaReader, SubjectReader
from log_format.schemas.columns.given_columns import spelled
from log_format.schemas.columns.shape import LibraryNeeded, Untypable
from log_format.schemas.schema import Schema, SchemaType
from log_format.schemas.state import SchemasState, schemas_table
from log_format.schemas.subjects import split
from log_format.store import ObjectStore
from log_format.topic.config import Subjects
from log_format.topic.erasures import Erasure, Judge, SubjectPair

READERS_MAX: Final = 16
"""Most topics' readers that a process without a gateway keeps."""


class StoredReaders:
    """Readers of topics' schemas for a process without a gateway: it looks at the registry's table itself.

    Thread-safe; no thread waits for the store on behalf of another.
    """

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._idle: list[TableLog[SchemasState]] = []
        """Logs that no thread uses at this moment."""
        self._kept: dict[tuple[Subjects, int, bool], RecordReaders] = {}

    def newest(self, subjects: Subjects, *, is_late: bool = False) -> RecordReaders:
        """Return the readers after a look at the registry. ``is_late`` as for ``make_readers``.

        Raises as ``make_readers``, and ``StoreUnavailable``, ``CorruptData``.
        """
        try:
            log = self._idle.pop()
        except IndexError:
            log = TableLog(self._store, schemas_table(), self._clock)
        try:
            state = log.refresh()
        finally:
            self._idle.append(log)
        found = self._kept.get((subjects, state.version, is_late))
        if found is None:
            found = self._kept[subjects, state.version, is_late] = make_readers(subjects, state, is_late=is_late)
            for oldest in list(self._kept)[:-READERS_MAX]:
                self._kept.pop(oldest, None)
        return found

    def type_records(self, subjects: Subjects, records: pa.Table) -> pa.Table | None:
        """Return the typed columns of records that were accepted before, as ``TypeRecords`` specifies."""
        try:
            return self.newest(subjects, is_late=True).typed(records)[0]
        except RequestRefused:
            return None
        except (StoreUnavailable, CorruptData) as problem:
            raise BackOff(f"The schemas of the topic can't be read: {problem.detail}") from problem


def judge_for(erasures: Iterable[Erasure], store: ObjectStore, subjects: Subjects) -> Judge | None:
    """Return a function that gives records of a topic the columns of its subjects, or of others, as ``type_records``; None if no
    request needs it."""
    if not any(one.where is not None and (one.judged_by or subjects.are_set) for one in erasures):
        return None
    readers = StoredReaders(store, SystemClock())

    def judge(records: pa.Table, others: SubjectPair | None) -> pa.Table | None:
        wanted = subjects if others is None else Subjects(*others)
        return readers.type_records(wanted, records) if wanted.are_set else None

    return judge


def make_readers(subjects: Subjects, state: SchemasState, *, is_late: bool = False) -> RecordReaders:
    """Return the readers of the subjects.

    ``is_late``: the records were accepted before. A subject whose versions were all deleted meanwhile still reads what names one
    of them, or was judged by it.

    Raises ``RequestRefused`` (``INVALID_CONFIG``) for a subject without versions, or with one that columns can't have;
    ``BackOff`` if this program lacks a package that one needs.
    """
    value, key = (_reader(name, state, is_late=is_late) if name else None for name in subjects)
    return RecordReaders(value, key)


def documents_of(readers: RecordReaders, typed: pa.Table, given: pa.StructArray, bytes_max: int) -> pa.BinaryArray:
    """Return values that came as columns as documents: canonical ones of the newest version, and those of marked records made of
    what was given. Raises ``DocumentsTooLarge``."""
    assert readers.value is not None
    column = typed.column(DATA).combine_chunks()
    found = readers.value.documents(column, bytes_max)
    if column.null_count == given.null_count:
        return found
    return pc.coalesce(found, render(spelled(given), bytes_max=bytes_max))


def schema_reader(schema: Schema, references: tuple[tuple[str, str], ...]) -> SchemaReader:
    """Return the reader of a schema: the same one for all states of the registry, as long as any of them has it in use.

    Raises ``Untypable``, ``LibraryNeeded``.
    """
    key = schema.type, schema.text, references
    found = _SHARED.get(key)
    if found is None:
        found = _SHARED[key] = SchemaReader(schema, references)
    return found


_SHARED: Final[WeakValueDictionary[tuple[SchemaType, str, tuple[tuple[str, str], ...]], SchemaReader]] = (
    WeakValueDictionary()
)
"""Readers in use: a subject with many versions has many states, and each state has readers of all versions."""


def _reader(subject: str, state: SchemasState, *, is_late: bool) -> SubjectReader:
    newest, known = state.latest(subject), state.versions(subject, deleted=True)
    if newest is None and not (is_late and known):
        raise _refused(subject, f"Subject {subject!r} has no schema. Register one first.")
    versions = []
    try:
        for version in known:
            references = state.resolved(version.schema, split(subject)[0])
            versions.append((version.schema_id, schema_reader(version.schema, references)))
        newest_id = newest.schema_id if newest is not None else None
        versions.sort(key=lambda one: one[0] == newest_id)  # the newest last
        return SubjectReader(subject, versions, has_newest=newest is not None)
    except LibraryNeeded as problem:
        raise BackOff(f"The schema of subject {subject!r} can't be read by this program: {problem}.") from problem
    except (Untypable, TypeConflict) as problem:
        raise _refused(subject, f"Subject {subject!r} can't be the schema of a topic: {problem}.") from problem


def _refused(subject: str, what: str) -> RequestRefused:
    return RequestRefused(what, code=ErrorCode.INVALID_CONFIG, subject=subject)
