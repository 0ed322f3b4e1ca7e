"""Translation between Tidelog's ACLs and the numbers of Kafka's protocol.

An ACL that Tidelog cannot express exactly is refused with a message, never widened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from gateway.http.access_fields import GROUP, ROLE, USER, is_principal, resource_fault
from log_format.access.acls import CLUSTER, EVERY, Acl, Operation, Pattern, Permission, ResourceType
from log_format.errors import ErrorCode, RequestRefused

ANY: Final = 1
"""Value in a filter that matches every type, operation, permission or pattern."""
MATCH: Final = 2
"""Pattern value in a filter that matches every ACL that applies to the resource."""
LITERAL: Final = 3
CLUSTER_NAME: Final = "kafka-cluster"
EVERY_USER: Final = f"{USER}{EVERY}"

RESOURCE_TYPES: Final[Mapping[ResourceType, int]] = {"topic": 2, "group": 3, "cluster": 4, "transactional_id": 5}
OPERATIONS: Final[Mapping[Operation, int]] = {
    "All": 2,
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
}
PERMISSIONS: Final[Mapping[Permission, int]] = {"deny": 2, "allow": 3}
PATTERNS: Final[Mapping[Pattern, int]] = {"literal": LITERAL, "prefix": 4}
_UNSUPPORTED_OPERATIONS: Final = {
    9: "ClusterAction",
    10: "DescribeConfigs (Describe on the topic allows it)",
    11: "AlterConfigs (Alter on the topic allows it)",
    12: "IdempotentWrite (Write on the topic allows it)",
    13: "CreateTokens",
    14: "DescribeTokens",
    15: "TwoPhaseCommit",
}
_UNSUPPORTED_TYPES: Final = {6: "delegation tokens", 7: "users"}
K = TypeVar("K", bound=str)


class KafkaAcl(NamedTuple):
    """An ACL, or a filter over ACLs, as a request encodes it. Texts are None only in filters."""

    resource_type: int
    resource: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int


def parse_acl(given: KafkaAcl) -> Acl:
    """Return the ACL in Tidelog's terms. Raise ``RequestRefused`` if Tidelog cannot express it."""
    if given.host != EVERY:
        raise _refused(f"ACLs hold for every host: host must be {EVERY}")
    if given.operation in _UNSUPPORTED_OPERATIONS:
        raise _refused(f"There is no operation {_UNSUPPORTED_OPERATIONS[given.operation]}")
    if given.resource_type in _UNSUPPORTED_TYPES:
        raise _refused(f"There are no ACLs of {_UNSUPPORTED_TYPES[given.resource_type]}")
    resource_type = _decode(RESOURCE_TYPES, given.resource_type, "resource type")
    pattern = _decode(PATTERNS, given.pattern, "pattern")
    resource = _own_resource(resource_type, given.resource or "")
    principal = own_principal(given.principal or "")
    if (fault := resource_fault(resource_type, resource, pattern)) is not None:
        raise _refused(f"The name of the {resource_type} {fault}")
    if principal != EVERY and not is_principal(principal, USER, GROUP, ROLE):
        raise _refused(f"The principal must be {USER}, {GROUP} or {ROLE} and a name")
    operation = _decode(OPERATIONS, given.operation, "operation")
    return Acl(
        principal, operation, resource_type, resource, pattern, _decode(PERMISSIONS, given.permission, "permission")
    )


def encode_acl(acl: Acl) -> KafkaAcl:
    """Return the ACL as Kafka encodes it."""
    return KafkaAcl(
        RESOURCE_TYPES[acl.resource_type],
        CLUSTER_NAME if acl.resource_type == "cluster" else acl.resource,
        PATTERNS[acl.pattern],
        EVERY_USER if acl.principal == EVERY else acl.principal,
        EVERY,
        OPERATIONS[acl.operation],
        PERMISSIONS[acl.permission],
    )


def own_principal(principal: str) -> str:
    """Return Tidelog's name of the principal: ``User:*`` becomes the principal that means every caller."""
    return EVERY if principal == EVERY_USER else principal


def matches_filter(acl: Acl, asked: KafkaAcl) -> bool:
    """Return whether the ACL matches every field of the filter. Kafka has no word for subjects of schemas: it sees no ACL of one,
    and deletes none."""
    if acl.resource_type not in RESOURCE_TYPES:
        return False
    own = encode_acl(acl)
    return (
        _matches(asked.resource_type, own.resource_type)
        and _matches(asked.operation, own.operation)
        and _matches(asked.permission, own.permission)
        and asked.principal in (None, own.principal)
        and asked.host in (None, own.host)
        and _matches_pattern(acl, own.resource or "", asked)
    )


def _matches_pattern(acl: Acl, resource: str, asked: KafkaAcl) -> bool:
    if asked.pattern != MATCH:
        return _matches(asked.pattern, PATTERNS[acl.pattern]) and asked.resource in (None, resource)
    if asked.resource is None or resource == asked.resource:
        return True
    return asked.resource.startswith(resource) if acl.pattern == "prefix" else resource == EVERY


def _matches(asked: int, own: int) -> bool:
    return asked in (ANY, own)


def _own_resource(resource_type: ResourceType, name: str) -> str:
    if resource_type != "cluster":
        return name
    if name not in (CLUSTER_NAME, CLUSTER, EVERY):
        raise _refused(f"The only cluster is {CLUSTER_NAME}")
    return CLUSTER


def _decode(words: Mapping[K, int], number: int, what: str) -> K:
    for word, own in words.items():
        if own == number:
            return word
    raise _refused(f"{number} is no {what} of an ACL")


def _refused(what: str) -> RequestRefused:
    return RequestRefused(f"{what}.", code=ErrorCode.INVALID_REQUEST)
