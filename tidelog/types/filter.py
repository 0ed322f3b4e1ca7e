"""Filters of records. Gateways apply them, so unwanted records are not transferred."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

CONDITIONS_MAX: Final = 16


class Filter:
    """Condition on headers and key; all parts must hold.

    ::

        Filter(headers={"type": "order", "trace": "*"}, key="user-7")

    ``headers``: names and values, at most 16; pairs if a name occurs more than once. ``"*"`` matches any value, also null. If a
    record has several headers of the name, one must match. ``key``: text or bytes.
    """

    __slots__ = ("headers", "key")

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        key: str | bytes | None = None,
    ) -> None:
        """Create the filter. Raises ``ValueError`` for more conditions than a gateway accepts, and for a name with a colon."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        self.headers = tuple(f"{name}:{value}" for name, value in pairs)
        """Conditions in the HTTP API's form, ``name:value``."""
        self.key = key.encode() if isinstance(key, str) else key
        if len(self.headers) > CONDITIONS_MAX:
            raise ValueError(f"{len(self.headers)} conditions on headers; at most {CONDITIONS_MAX} are allowed")
        for name, _ in pairs:
            if ":" in name:
                raise ValueError(f"header {name!r}: records can't be filtered by a name with a colon")

    def __repr__(self) -> str:
        """Show the conditions in the HTTP API's form."""
        return f"Filter(headers={list(self.headers)!r}, key={self.key!r})"

    def query(self) -> dict[str, Any]:
        """Return the filter as query parameters."""
        return {"header": list(self.headers), **self._key()}

    def member(self) -> dict[str, Any]:
        """Return the filter as the member ``filter`` of a body."""
        return {"headers": self.headers, **self._key()}

    def _key(self) -> dict[str, str]:
        if self.key is None:
            return {}
        try:
            return {"key": self.key.decode()}
        except UnicodeDecodeError:
            return {"key_base64": base64.b64encode(self.key).decode()}
