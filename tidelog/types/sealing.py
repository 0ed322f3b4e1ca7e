"""What a producer and a consumer need of an envelope: ``tidelog.encryption.Envelope`` is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidelog.types.record import Record

Pair = tuple[str, bytes | str | None]


class Sealing(Protocol):
    """Seals values before they are sent, and opens those of records."""

    def seal(
        self, value: bytes | str | None, *, key: bytes | str | None = None, headers: Iterable[Pair] = ()
    ) -> tuple[bytes | None, list[Pair]]:
        """The value and headers to send under this key."""

    def open(self, record: Record) -> bytes | None:
        """The value that was sealed. Raises ``ValueError`` where it can't be opened."""
