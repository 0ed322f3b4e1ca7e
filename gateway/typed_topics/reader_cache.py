"""The readers of topics' schemas, by subject: made once for each state of a subject.

What the registry has is looked at before records are judged by it. Where it can't be, the records are refused, never let through.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa

from gateway.call import detached_from_call
from gateway.engine.pool import Pool
from gateway.tables.schemas import SchemasTable
from log_format.errors import RequestRefused
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns
from log_format.schemas.changes import ClaimColumns
from log_format.schemas.columns.codec import Misfit, RecordReaders
from log_format.schemas.columns.subject_readers import StoredReaders, make_readers
from log_format.schemas.registered import Version
from log_format.schemas.state import SchemasState
from log_format.topic.config import Subjects

READERS_MAX: Final = 64
"""Most readers that are kept; the least recently used ones are dropped first."""
LATE_MS: Final = 250
"""Age of the registry's state by which an unknown schema is judged: a flood of them costs a look in this time."""

_Key = tuple[Subjects, tuple[Version, ...], tuple[Version, ...]]


class ReaderCache:
    """The readers of this gateway. Used on the event loop only.

    Args:
        schemas: the registry's table.
        pool: where readers are made, which may take long for large schemas.
        stored: readers for threads, which look at the registry themselves where this gateway knows too little.
    """

    def __init__(self, schemas: SchemasTable, pool: Pool, stored: StoredReaders) -> None:
        self._schemas = schemas
        self._stored = stored
        self._pool = pool
        self._kept: OrderedDict[_Key, RecordReaders] = OrderedDict()

    async def of(self, subjects: Subjects) -> RecordReaders:
        """Return the readers of a topic's values and keys.

        Raises ``RequestRefused`` (``INVALID_CONFIG``) for a subject without versions, or with one that columns can't have;
        ``BackOff`` if the registry's table can't be read.
        """
        return await self._of(subjects, await self._schemas.seen())

    async def columns(self, subjects: Subjects) -> TypedColumns:
        """Return the typed columns that a topic of these subjects gets, as of now.

        From then on the registry refuses versions that don't fit them. Raises the same errors as ``of``.
        """
        if not subjects.are_set:
            return NO_TYPED_COLUMNS
        await self._of(subjects, await self._schemas.recent(0))
        for subject in subjects:
            if subject and not self._schemas.state.config(subject).has_columns:
                with detached_from_call():  # the caller asked for a topic, not for this commit
                    await self._schemas.decide(ClaimColumns(subject=subject))
        return (await self._of(subjects, self._schemas.state)).columns

    async def newer(self, subjects: Subjects, misfits: Sequence[Misfit]) -> RecordReaders | None:
        """Return readers that may know more; None if no misfit is due to an unknown schema, or the registry knows no more.

        Raises the same errors as ``of``.
        """
        if not any(misfit.fault.is_schema_unknown for misfit in misfits):
            return None
        before = _key(subjects, self._schemas.state)
        state = await self._schemas.recent(LATE_MS)
        return None if _key(subjects, state) == before else await self._of(subjects, state)

    async def _of(self, subjects: Subjects, state: SchemasState) -> RecordReaders:
        key = _key(subjects, state)
        found = self._kept.get(key)
        if found is None:
            found = await self._pool.run(make_readers, subjects, state)
            self._kept[key] = found
            while len(self._kept) > READERS_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    def type_records(self, subjects: Subjects, records: pa.Table) -> pa.Table | None:
        """Return the typed columns of records that were accepted before, as ``TypeRecords`` specifies."""
        state = self._schemas.state
        with suppress(RequestRefused):
            readers = self._kept.get(_key(subjects, state)) or make_readers(subjects, state)
            typed, misfits = readers.typed(records)
            if not any(misfit.fault.is_schema_unknown for misfit in misfits):
                return typed
        return self._stored.type_records(subjects, records)


def _key(subjects: Subjects, state: SchemasState) -> _Key:
    value, key = (tuple(state.numbers(name, deleted=True)) for name in subjects)
    return subjects, value, key
