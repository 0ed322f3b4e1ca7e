"""Shares of Delta Sharing: create, list, delete.

A share is a user that may read some topics, and its tokens. So it is made of the calls about access, and the gateway has nothing
else to remember: what the user may read is what the share has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tidelog.calls.access import AccessCalls
from tidelog.types.access import Acl
from tidelog.types.share import NewShare, Share

PRINCIPAL_PREFIX: Final = "User:share-"
"""Beginning of the user's name, by which gateways know a share, too."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_OWN: Final = "tidelog"
"""The share that every caller has."""
_PATH: Final = "/delta-sharing"


class ShareCalls(AccessCalls):
    """Calls of ``Admin`` about shares. All need Alter on the cluster."""

    def create_share(
        self, name: str, topics: Iterable[str], *, expires_at: int | None = None, endpoint: str | None = None
    ) -> NewShare:
        """Let the user of a share read topics, create a token for it, and return both.

        Of a share that exists the user may read these topics, too, and has one token more. Never retried as a whole: without an
        answer the rights may be there, and a token that nobody knows; ``delete_share`` takes both away.

        Args:
            name: 1 to 100 letters, digits, underscores and hyphens, but not ``tidelog``.
            topics: names, or prefixes before a ``*``.
            expires_at: when the token ends (ms since the epoch), at most 366 days from now; None: in 90 days.
            endpoint: gateways' address for the share's readers; None: that of this client's first gateway.

        Raises ``ValueError`` for an impossible name or without topics.
        """
        principal, wanted = _principal(name), sorted(set(topics))
        if not wanted:
            raise ValueError("a share needs one topic at least")
        self.add_acls([_acl(principal, topic) for topic in wanted])
        made = self.create_token(principal, description=f"Delta Sharing: {name}", expires_at=expires_at)
        base = (endpoint or self._transport.urls[0]).rstrip("/").removesuffix(_PATH)
        return NewShare(
            name=name,
            principal=principal,
            topics=tuple(wanted),
            expires_at=made.secrets[0].expires_at if made.secrets else None,
            endpoint=base + _PATH,
            token=made.token,
        )

    def list_shares(self) -> list[Share]:
        """Return all shares by name: users of shares that may read a topic, or have a token."""
        found: dict[str, tuple[set[str], set[int]]] = {}
        for acl in self.list_acls(operation="Read", resource_type="topic", permission="allow"):
            if acl.principal.startswith(PRINCIPAL_PREFIX):
                topics, _ = found.setdefault(acl.principal, (set(), set()))
                is_prefix = acl.pattern == "prefix"
                topics.add(f"{acl.resource}*" if is_prefix else acl.resource)
        for token in self.list_tokens():
            if token.principal.startswith(PRINCIPAL_PREFIX):
                _, ends = found.setdefault(token.principal, (set(), set()))
                ends.update(secret.expires_at for secret in token.secrets)
        return [
            Share(
                name=principal.removeprefix(PRINCIPAL_PREFIX),
                principal=principal,
                topics=tuple(sorted(topics)),
                expires_at=max(ends, default=None),
            )
            for principal, (topics, ends) in sorted(found.items())
        ]

    def delete_share(self, name: str) -> bool:
        """Revoke a share's tokens and delete its user's ACLs, within 5 s everywhere. Return whether there was anything.

        A repeated call finishes what an earlier one began.
        """
        principal = _principal(name)
        tokens = self.list_tokens(principal)
        for token in tokens:
            self.revoke_token(token.id, missing_ok=True)
        return bool(self.delete_acls(principal=principal)) or bool(tokens)


def _principal(name: str) -> str:
    if not _NAME.fullmatch(name) or name.lower() == _OWN:
        raise ValueError(
            f"a share's name has 1 to 100 letters, digits, '_' and '-', and is not {_OWN!r}: {name[:100]!r}"
        )
    return PRINCIPAL_PREFIX + name


def _acl(principal: str, topic: str) -> Acl:
    is_prefix = topic.endswith("*") and topic != "*"
    return Acl(
        principal=principal,
        operation="Read",
        resource_type="topic",
        resource=topic.removesuffix("*") if is_prefix else topic,
        pattern="prefix" if is_prefix else "literal",
    )
