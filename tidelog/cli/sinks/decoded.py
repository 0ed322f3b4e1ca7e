"""Keys and values of Confluent's serializers, shown as JSON by the schemas that they name.

What can't be decoded is shown as it is, and a note says why, once for each schema. Nothing here fails a command: a missing right,
or a registry that does not answer, is such a reason, too. Any binary value may begin like one of Confluent's, so after
``UNKNOWN_MAX`` unknown ids nothing more is asked.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from log_format.errors import TidelogError
from tidelog.admin import Admin
from tidelog.cli.sinks.record_text import Writer
from tidelog.cli.terminal.console import note
from tidelog.schemas.framed import SchemasById, Undecodable, schema_id_of
from tidelog.types.record import Record

UNKNOWN_MAX: Final = 10

RawOption = Annotated[
    bool,
    typer.Option("--raw", help="Show the bytes of values of Confluent's serializers, and don't decode them to JSON."),
]


class RecordDecoder:
    """Decoder of records' keys and values, by the registry that ``admin`` reaches."""

    def __init__(self, admin: Admin) -> None:
        self._by_id = SchemasById(admin.schemas())
        self._unknown: set[int] = set()
        self._failed: set[int] = set()
        self._succeeded = False

    def writer(self, write: Writer) -> Writer:
        """Return a writer of records with decoded keys and values."""
        return lambda record: write(self._decoded(record))

    def _decoded(self, record: Record) -> Record:
        key, value = self._text(record, record.key), self._text(record, record.value)
        if key is record.key and value is record.value:
            return record
        return msgspec.structs.replace(record, key=key, value=value)

    def _text(self, record: Record, data: bytes | None) -> bytes | None:
        schema_id = None if data is None else schema_id_of(data)
        if data is None or schema_id is None or schema_id in self._unknown:
            return data
        if len(self._unknown) >= UNKNOWN_MAX and not self._by_id.knows(schema_id):
            return data
        try:
            text = msgspec.json.encode(self._by_id.members(data), enc_hook=str)
        except (Undecodable, TidelogError) as error:
            self._tell_failure(record, schema_id, error)
            return data
        if not self._succeeded:
            self._succeeded = True
            note(
                "Keys and values that name a schema are shown as JSON, by the schema registry; --raw shows their bytes."
            )
        return text

    def _tell_failure(self, record: Record, schema_id: int, error: Undecodable | TidelogError) -> None:
        if isinstance(error, TidelogError):
            self._unknown.add(schema_id)
        if schema_id in self._failed or len(self._failed) >= UNKNOWN_MAX:
            return
        self._failed.add(schema_id)
        detail = (error.detail if isinstance(error, TidelogError) else str(error)).rstrip(".")
        note(f"{record.topic}/{record.partition}@{record.offset} is shown as it is: {detail}.")
