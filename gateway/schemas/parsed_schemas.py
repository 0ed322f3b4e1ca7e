"""Parsed schemas, kept for the next comparison: least recently used first out, within a budget of their texts' bytes.

Used from several threads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from log_format.schemas.parsed import InvalidSchema, ParsedSchema
from log_format.schemas.parsing import parse
from log_format.schemas.refusals import RegistryCode, RegistryRefused, invalid_schema
from log_format.schemas.schema import Schema

KEPT_BYTES_MAX: Final = 512 * 1024
"""Bytes of the texts of the schemas that are kept. Parsed ones take some twenty times as much."""
_LEAST_BYTES: Final = 256
"""Bytes that a parsed schema counts at least."""


class ParsedSchemas:
    """The parsed schemas of a gateway."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._kept_bytes_max = kept_bytes_max
        self._kept: OrderedDict[bytes, tuple[ParsedSchema, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def kept_bytes(self) -> int:
        """Bytes of the texts of the schemas that are kept."""
        return self._bytes

    def parsed(self, schema: Schema, references: Sequence[tuple[str, str]], *, is_new: bool = False) -> ParsedSchema:
        """Return the schema as parsed with name and text of all that it refers to.

        ``is_new``: whether it is to be registered, and is no import, so that all of it is checked (``parse``).

        Call it in a thread. Raises ``RegistryRefused``: 42201, or 50001 if the gateway lacks a library.
        """
        key = _key(schema, references, is_new=is_new)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found[0]
        try:
            parsed = parse(schema, references, is_new=is_new)
        except InvalidSchema as problem:
            raise invalid_schema(f"Invalid schema: {problem.detail}") from problem
        except ImportError as problem:
            raise RegistryRefused(
                RegistryCode.STORE_ERROR,
                f"This gateway lacks the libraries for {schema.type} schemas: pip install 'tidelog[registry]'",
            ) from problem
        self._keep(key, parsed, sum(len(text) for _, text in references) + len(schema.text) + _LEAST_BYTES)
        return parsed

    def _keep(self, key: bytes, parsed: ParsedSchema, size_bytes: int) -> None:
        with self._lock:
            if key in self._kept or size_bytes > self._kept_bytes_max:
                return
            self._kept[key] = (parsed, size_bytes)
            self._bytes += size_bytes
            while self._bytes > self._kept_bytes_max:
                self._bytes -= self._kept.popitem(last=False)[1][1]


def _key(schema: Schema, references: Sequence[tuple[str, str]], *, is_new: bool) -> bytes:
    found = blake2b(b"new" if is_new else b"", digest_size=20)
    for part in (schema.type, schema.text, *(part for pair in references for part in pair)):
        data = part.encode("utf-8", "surrogatepass")
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.digest()
