"""Callers, tokens, roles, ACLs and quotas, as the API describes them. No ``repr`` shows a secret.

Times are milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypedDict

Operation = Literal["All", "Read", "Write", "Create", "Delete", "Alter", "Describe"]
ResourceType = Literal["topic", "group", "transactional_id", "subject", "cluster"]
Pattern = Literal["literal", "prefix"]
Permission = Literal["allow", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSecret:
    """One of a token's secrets; during a rotation there are two."""

    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token without its secret. ``groups``: those of its bearer, as ``Group:…``."""

    id: str
    principal: str
    groups: tuple[str, ...] = ()
    description: str = ""
    created_at: int = 0
    secrets: tuple[TokenSecret, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccessToken(AccessToken):
    """A token with its secret ``token``, which is shown only once."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role's members: ``User:…`` and ``Group:…``."""

    role: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """Rule that allows or denies a principal (``User:…``, ``Group:…``, ``Role:…`` or ``*``) an operation on resources.

    The literal resource ``*`` stands for all of its type; the cluster's resource is ``cluster``. A deny overrides every allow.
    """

    principal: str
    operation: Operation
    resource_type: ResourceType
    resource: str
    pattern: Pattern = "literal"
    permission: Permission = "allow"


class AclMembers(TypedDict, total=False):
    """Criteria by which ACLs are found: some of an ACL's members. None matches any value."""

    principal: str | None
    operation: Operation | None
    resource_type: ResourceType | None
    resource: str | None
    pattern: Pattern | None
    permission: Permission | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
    """Decision whether access is allowed, and the reason: ``super_user``, ``allow`` or ``deny`` by ``acl``, or ``default`` (no
    ACL matches)."""

    allowed: bool
    reason: str
    acl: Acl | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of a principal (``User:…``, or ``*``: each principal without a quota of its own). None: unlimited."""

    principal: str
    produce_bytes_per_s: int | None = None
    fetch_bytes_per_s: int | None = None
    requests_per_s: int | None = None
    partitions_created_per_minute: int | None = None
    connections: int | None = None
    event_streams: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Identity by which the gateway knows the client. ``authentication``: ``token``, ``jwt``, ``certificate`` or ``none``."""

    principal: str
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    super_user: bool = False
    authentication: str = "none"
    token_id: str | None = None
    expires_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """Location of a topic's table in the bucket."""

    topic: str
    table_uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCredentials:
    """Temporary credentials that give direct access to the tables of some topics."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_at: int
    endpoint_url: str | None = None
    region: str
    topics: tuple[TopicTable, ...] = ()
