"""Which records a reader wants: decided by the gateway, so that the others do not travel."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

CONDITIONS_MAX: Final = 16


class Filter:
    """Records with these headers and this key; all of it must hold.

    ::

        Filter(headers={"type": "order", "trace": "*"}, key="user-7")

    ``headers``: names and values, at most 16; as pairs where a name is there more than once. ``"*"``: any value, null too. Of a
    record's headers with the name one must fit. ``key``: text or bytes.
    """

    __slots__ = ("headers", "key")

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        key: str | bytes | None = None,
    ) -> None:
        """Raises ``ValueError`` for more conditions than a gateway takes, and for a name with a colon."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        self.headers = tuple(f"{name}:{value}" for name, value in pairs)
        """As the HTTP API has them: ``name:value``."""
        self.key = key.encode() if isinstance(key, str) else key
        if len(self.headers) > CONDITIONS_MAX:
            raise ValueError(f"{len(self.headers)} conditions on headers, more than {CONDITIONS_MAX}")
        for name, _ in pairs:
            if ":" in name:
                raise ValueError(f"header {name!r}: records can't be filtered by a name with a colon")

    def __repr__(self) -> str:
        """Its conditions, as the HTTP API has them."""
        return f"Filter(headers={list(self.headers)!r}, key={self.key!r})"

    def query(self) -> dict[str, Any]:
        """As parameters of a query."""
        return {"header": list(self.headers), **self._key()}

    def member(self) -> dict[str, Any]:
        """As the member ``filter`` of a body."""
        return {"headers": self.headers, **self._key()}

    def _key(self) -> dict[str, str]:
        if self.key is None:
            return {}
        try:
            return {"key": self.key.decode()}
        except UnicodeDecodeError:
            return {"key_base64": base64.b64encode(self.key).decode()}
