"""The readers of topics' schemas, by subject: made once for each state of a subject.

What the registry has is looked at before records are judged by it. Where it can't be, the records are refused, never let through.

1. Nobody is refused by a state of the registry that is older than the request: a schema that any gateway acknowledged before
   counts.
2. A refusal waits for a look that others share (``SchemasTable.newer``); a record that fits takes none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa

from gateway.call import detached_from_call
from gateway.engine.pool import Pool
from gateway.system_tables.schemas import SchemasTable
from log_format.errors import RequestRefused
from log_format.records.document_schemas import are_judged
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns
from log_format.schemas.changes import ClaimColumns
from log_format.schemas.columns.codec import Misfit, RecordReaders
from log_format.schemas.columns.subject_readers import StoredReaders, make_readers
from log_format.schemas.registered import Version
from log_format.schemas.state import SchemasState
from log_format.topic.config import Subjects

READERS_MAX: Final = 64
"""Most readers that are kept; the least recently used ones are dropped first."""

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
        state = await self._schemas.seen()
        try:
            return await self._of(subjects, state)
        except RequestRefused:
            # Perhaps another gateway registered a schema since.
            return await self._of(subjects, await self._schemas.newer())

    async def columns(self, subjects: Subjects, topic: str) -> TypedColumns:
        """Return the typed columns that this topic gets by its subjects, as of now.

        From then on the registry refuses versions that don't fit them. Raises the same errors as ``of``.
        """
        if not subjects.are_set:
            return NO_TYPED_COLUMNS
        await self._of(subjects, await self._schemas.recent(0))
        for subject in filter(None, subjects):
            with detached_from_call():  # the caller asked for a topic, not for this commit
                await self._schemas.decide(ClaimColumns(subject=subject, topic=topic))
        return (await self._of(subjects, self._schemas.state)).columns

    async def newer(
        self, subjects: Subjects, misfits: Sequence[Misfit], known: RecordReaders, arrival_ms: int | None = None
    ) -> RecordReaders | None:
        """Return the readers after a look at the registry that began after ``arrival_ms`` (monotonic), and which others share;
        None if these are ``known``, which found the misfits.

        Raises the same errors as ``of``: while the registry can't be read, nobody is refused by what is known.
        """
        if not misfits:
            return None
        if arrival_ms is not None and self._schemas.is_seen_after(arrival_ms):
            found = await self._of(subjects, self._schemas.state)
        else:
            found = await self._of(subjects, await self._schemas.newer())
        return None if found is known else found

    async def misfits(self, subjects: Subjects, records: pa.Table) -> set[int]:
        """Return the rows of the records that are not of a topic's schemas, as of a look at the registry that begins now.

        Raises the same errors as ``of``.
        """
        if not subjects.are_set:
            return set()
        readers = await self._of(subjects, await self._schemas.newer())
        _, found = await self._pool.run(readers.typed, records)
        return {misfit.row for misfit in found}

    async def know(self, subjects: Subjects) -> None:
        """Look at the registry before ``type_records`` judges records that another gateway may have accepted.

        Raises ``BackOff`` if the registry's table can't be read.
        """
        if subjects.are_set:
            state = await self._schemas.fresh()
            with suppress(RequestRefused):  # nobody can judge the records: they will be marked
                await self._of(subjects, state)

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
        """Return the typed columns of records that were accepted before, as ``TypeRecords`` specifies.

        It looks at the registry itself where records don't fit what this gateway knows, or come from a journal unjudged.
        """
        state = self._schemas.state
        if are_judged(records, value=bool(subjects.value), key=bool(subjects.key)):
            with suppress(RequestRefused):
                readers = self._kept.get(_key(subjects, state)) or make_readers(subjects, state)
                typed, misfits = readers.typed(records)
                if not misfits:
                    return typed
        return self._stored.type_records(subjects, records)


def _key(subjects: Subjects, state: SchemasState) -> _Key:
    value, key = (tuple(state.numbers(name, deleted=True)) for name in subjects)
    return subjects, value, key
