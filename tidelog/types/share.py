"""Shares of Delta Sharing, as ``Admin`` describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share: a user, ``principal``, that may read ``topics``. Each is a name, or a prefix before ``*``.

    ``expires_at``: when the last of its tokens ends, in ms since the epoch; None: it has none.
    """

    name: str
    principal: str
    topics: tuple[str, ...]
    expires_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewShare(Share):
    """A share with a token, which is shown only once. ``endpoint``: the address of Delta Sharing."""

    endpoint: str
    token: str = field(repr=False)

    def profile(self) -> dict[str, Any]:
        """Return the content of a profile file, by which clients of Delta Sharing read the share. It has the token."""
        profile = {"shareCredentialsVersion": 1, "endpoint": self.endpoint, "bearerToken": self.token}
        if self.expires_at is not None:
            profile["expirationTime"] = datetime.fromtimestamp(self.expires_at // 1000, UTC).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            )
        return profile
