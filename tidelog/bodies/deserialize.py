"""The user's deserializers, applied to the bytes of keys and values; before them the envelope opens values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tidelog.types.record import Record
from tidelog.types.sealing import Sealing

Deserializer = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Deserializers:
    """Each may be None: the bytes as they are. Null keys and values stay None."""

    key: Deserializer | None
    value: Deserializer | None
    envelope: Sealing | None = None

    def apply(self, records: list[Record]) -> tuple[list[Record], Exception | None]:
        """The records with deserialized keys and values, up to the first that fails, and its error."""
        if self.key is None and self.value is None and self.envelope is None:
            return records, None
        made: list[Record] = []
        for record in records:
            try:
                made.append(self._made(record))
            except Exception as error:  # noqa: BLE001 - the user's code
                error.add_note(f"deserializing {record.topic}/{record.partition} at offset {record.offset}")
                return made, error
        return made, None

    def _made(self, record: Record) -> Record:
        key = record.key if self.key is None or record.key is None else self.key(record.key)
        value = record.value if self.envelope is None else self.envelope.open(record)
        value = value if self.value is None or value is None else self.value(value)
        return msgspec.structs.replace(record, key=key, value=value)
