"""Callers, tokens, roles, ACLs and quotas, as the API describes them. A secret is in no ``repr``.

Times are milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypedDict

Operation = Literal["All", "Read", "Write", "Create", "Delete", "Alter", "Describe"]
ResourceType = Literal["topic", "group", "transactional_id", "cluster"]
Pattern = Literal["literal", "prefix"]
Permission = Literal["allow", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSecret:
    """One of a token's secrets; while it is rotated there are two."""

    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token without its secret. ``groups``: those that its bearer belongs to, as ``Group:…``."""

    id: str
    principal: str
    groups: tuple[str, ...] = ()
    description: str = ""
    created_at: int = 0
    secrets: tuple[TokenSecret, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccessToken(AccessToken):
    """A token with its secret, ``token``, which is shown this once."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role's members: ``User:…`` and ``Group:…``."""

    role: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """What a principal (``User:…``, ``Group:…``, ``Role:…`` or ``*``) may do, or may not, with which resources.

    The literal resource ``*`` is all of its type; that of the cluster is ``cluster``. A deny wins over every allow.
    """

    principal: str
    operation: Operation
    resource_type: ResourceType
    resource: str
    pattern: Pattern = "literal"
    permission: Permission = "allow"


class AclMembers(TypedDict, total=False):
    """Some of an ACL's members, by which ACLs are found; None is as if it were not named."""

    principal: str | None
    operation: Operation | None
    resource_type: ResourceType | None
    resource: str | None
    pattern: Pattern | None
    permission: Permission | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
    """Whether it is allowed, and why: ``super_user``, ``allow`` or ``deny`` by ``acl``, or ``default`` (no ACL says so)."""

    allowed: bool
    reason: str
    acl: Acl | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a principal (``User:…``, or ``*``: each that has none of its own) may use. None: as much as there is."""

    principal: str
    produce_bytes_per_s: int | None = None
    fetch_bytes_per_s: int | None = None
    requests_per_s: int | None = None
    partitions_created_per_minute: int | None = None
    connections: int | None = None
    event_streams: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller that the gateway takes the client for. ``authentication``: ``token``, ``jwt``, ``certificate`` or ``none``."""

    principal: str
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    super_user: bool = False
    authentication: str = "none"
    token_id: str | None = None
    expires_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """Where a topic's table lies in the bucket."""

    topic: str
    table_uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCredentials:
    """Temporary credentials for the tables of some topics, past the gateways."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_at: int
    endpoint_url: str | None = None
    region: str
    topics: tuple[TopicTable, ...] = ()
