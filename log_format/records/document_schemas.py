"""By which schemas records that are JSON documents were judged: a document does not name its schema, and the newest one moves on.

The typed columns of a request carry this as a note. Records at a journal, which get their columns later, have it in the journal's
object, and on their way to the drain in two columns behind those of every record.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

VALUE_DOCUMENT_SCHEMA: Final = "value_document_schema"
KEY_DOCUMENT_SCHEMA: Final = "key_document_schema"
NO_SCHEMA: Final = -1
_NOTE: Final = b"tidelog.document.schemas"

SchemaRows = npt.NDArray[np.int64]
"""Array of shape (records, 2): for each record the ids of ``DocumentSchemas``, its value's and its key's."""


class DocumentSchemas(NamedTuple):
    """Ids of the schemas by which values and keys that are JSON documents were judged; ``NO_SCHEMA``: they were not judged."""

    value: int = NO_SCHEMA
    key: int = NO_SCHEMA

    def rows(self, count: int) -> SchemaRows:
        """Return the ids for as many records."""
        return np.tile(np.array(self, np.int64), (count, 1))


def with_note(columns: pa.Schema, schemas: DocumentSchemas) -> pa.Schema:
    """Return the schema of typed columns with the note of the schemas."""
    return columns.with_metadata({_NOTE: b"%d,%d" % schemas})


def read_note(columns: pa.Table | None) -> DocumentSchemas:
    """Return the schemas that a note names; without a note the records were not judged."""
    note = None if columns is None or columns.schema.metadata is None else columns.schema.metadata.get(_NOTE)
    return DocumentSchemas() if note is None else DocumentSchemas(*map(int, note.split(b",")))


def with_schema_rows(records: pa.Table, schemas: SchemaRows | None) -> pa.Table:
    """Return the records with the ids in two more columns; None: none was judged."""
    rows = DocumentSchemas().rows(records.num_rows) if schemas is None else schemas
    value, key = (pa.array(np.ascontiguousarray(rows[:, place])) for place in (0, 1))
    return records.append_column(VALUE_DOCUMENT_SCHEMA, value).append_column(KEY_DOCUMENT_SCHEMA, key)


def document_schemas_of(records: pa.Table, name: str) -> npt.NDArray[np.int64] | None:
    """Return the ids in one of the two columns; None if the records do not have it."""
    return records.column(name).to_numpy() if name in records.schema.names else None


def are_judged(records: pa.Table, *, value: bool, key: bool) -> bool:
    """Return False if records at a journal were not judged at the door: their ``value``, their ``key``, as asked."""
    for name, is_asked in ((VALUE_DOCUMENT_SCHEMA, value), (KEY_DOCUMENT_SCHEMA, key)):
        schemas = document_schemas_of(records, name) if is_asked else None
        if schemas is not None and (schemas == NO_SCHEMA).any():
            return False
    return True
