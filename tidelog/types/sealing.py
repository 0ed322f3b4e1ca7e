"""Interface between producers, consumers and an encryption envelope, such as ``tidelog.encryption.Envelope``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidelog.types.record import Record

Pair = tuple[str, bytes | str | None]


class Sealing(Protocol):
    """Encrypts values before they are sent, and decrypts values of records."""

    def seal(
        self, value: bytes | str | None, *, key: bytes | str | None = None, headers: Iterable[Pair] = ()
    ) -> tuple[bytes | None, list[Pair]]:
        """Return the value and headers to send with this key."""

    def open(self, record: Record) -> bytes | None:
        """Return the plain value. Raises ``ValueError`` if the value can't be decrypted."""
