"""Application of the user's deserializers to keys and values; an envelope decrypts values first."""

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
    """Deserializers of a consumer; None leaves the bytes unchanged. Null keys and values stay None."""

    key: Deserializer | None
    value: Deserializer | None
    envelope: Sealing | None = None

    def apply(self, records: list[Record]) -> tuple[list[Record], Exception | None]:
        """Return the deserialized records up to the first failing one, and its error or None."""
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
