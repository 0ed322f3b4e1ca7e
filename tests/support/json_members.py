"""What a record's members in JSON mean."""

from __future__ import annotations

import base64
from typing import Any


def bytes_of(member: dict[str, Any], name: str) -> bytes | None:
    """The member in its bytes, whichever of its two names it has; None where it is absent or null."""
    if f"{name}_base64" in member:
        return base64.b64decode(member[f"{name}_base64"])
    text = member.get(name)
    return None if text is None else str(text).encode()
