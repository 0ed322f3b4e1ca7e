"""The values of rows for a typed topic, judged by its schemas as a gateway judges them, before they are staged.

Values that are columns (a struct) become canonical JSON documents of the newest version. The records get their typed columns when
they are appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from log_format.errors import ErrorCode, RequestRefused
from log_format.records.canonical_json import DocumentsTooLarge
from log_format.schemas.columns.codec import Misfit, RecordReaders
from log_format.schemas.columns.given_columns import UnfitType
from log_format.schemas.columns.subject_readers import StoredReaders, documents_of
from log_format.topic.state import TopicState

DOCUMENTS_BYTES_MAX: Final = 256 * 1024 * 1024
"""Most bytes of the documents of one Arrow batch of Spark's, which has 10,000 rows by default."""
_SHOWN_ROWS: Final = 5
_SHOWN_KEY_BYTES: Final = 40


def judge_values(
    records: pa.Table, given: pa.StructArray | None, state: TopicState, schemas: StoredReaders
) -> pa.Table:
    """Return the records with their values, after judging them by the topic's schemas.

    Args:
        records: ``BATCH_SCHEMA``; the values are ignored if they are given as columns.
        given: the values as columns; None: they are in ``records``.
        state: the topic's.
        schemas: readers of schemas; the registry is looked at once, and again for a schema that is not known.

    Raises:
        RequestRefused: ``INVALID_RECORD`` for rows that are not of the schemas, unless the topic marks them; ``INVALID_CONFIG``
            for a subject without schemas; values are given as columns, and the topic has no schema of values.
        StoreUnavailable, CorruptData: the registry can't be read.
    """
    subjects = state.config.subjects
    if given is not None and not subjects.value:
        raise _refused(f"Topic {state.topic!r} has no schema of values (value.schema), so it takes no structs.")
    if not subjects.are_set:
        return records
    readers = schemas.newest(subjects)
    typed, misfits = _typed(readers, records, given, state)
    if any(misfit.fault.is_schema_unknown for misfit in misfits):
        readers = schemas.newest(subjects)
        typed, misfits = _typed(readers, records, given, state)
    if misfits and state.config.choice("data.on.error") == "reject":
        raise _refused(_describe(records, misfits, state))
    if given is None:
        return records
    values = documents_of(readers, typed, given, DOCUMENTS_BYTES_MAX)
    return records.set_column(records.schema.get_field_index("value"), records.schema.field("value"), values)


def _typed(
    readers: RecordReaders, records: pa.Table, given: pa.StructArray | None, state: TopicState
) -> tuple[pa.Table, list[Misfit]]:
    try:
        return readers.typed(records, given, DOCUMENTS_BYTES_MAX)
    except UnfitType as unfit:
        raise _refused(
            f"Topic {state.topic!r} has subject {state.config.subjects.value!r}, and column data"
            f"{'.' if unfit.path else ''}{unfit.path} {unfit.what}."
        ) from unfit
    except DocumentsTooLarge as large:
        raise _refused(f"The rows have more than {DOCUMENTS_BYTES_MAX} bytes as documents.") from large


def _describe(records: pa.Table, misfits: Sequence[Misfit], state: TopicState) -> str:
    """Return what is wrong with the first rows. A row has no number in Spark, so its key names it."""
    keys = records.column("key")
    rows = {misfit.row: misfit for misfit in reversed(misfits)}
    shown = [
        str(misfit) if (key := keys[row].as_py()) is None else f"key {key[:_SHOWN_KEY_BYTES]!r}: {misfit}"
        for row, misfit in sorted(rows.items())[:_SHOWN_ROWS]
    ]
    count = "A row is" if len(rows) == 1 else f"{len(rows)} rows are"
    return (
        f"{count} not of the schemas of topic {state.topic!r}, and nothing is written (data.on.error is reject): "
        f"{'; '.join(shown)}."
    )


def _refused(what: str) -> RequestRefused:
    return RequestRefused(what, code=ErrorCode.INVALID_RECORD)
