"""ACLs: which principal is allowed or denied which operation on which resources, and the decision that follows from all of them.

An ACL is a principal, an operation, a resource type, a resource, a pattern and a permission; the six are its identity. ACLs that
differ only in operation and permission are one entry: a key (``entry_key``) with a bit for each operation and permission. So a
decision takes a few dictionary look-ups whatever the number of ACLs, and a hundred thousand ACLs take some 25 MB.

1. A deny wins over every allow. What no ACL names is not allowed.
2. Allowing Read, Write, Delete or Alter allows Describe. A deny denies only the operation that it names; denying All denies each.
3. A literal ``*`` names every resource of its type. A name that begins with ``__`` is matched only by ACLs whose resource begins
   with that.
4. An ACL of the principal ``*`` applies to everyone.

Source: Kafka's ``Authorizer`` (KIP-11, KIP-290 for prefixes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

Operation = Literal["All", "Read", "Write", "Create", "Delete", "Alter", "Describe"]
ResourceType = Literal["topic", "group", "transactional_id", "subject", "cluster"]
Pattern = Literal["literal", "prefix"]
Permission = Literal["allow", "deny"]

OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)
CLUSTER: Final = "cluster"
"""Name of the only resource of its type."""
EVERY: Final = "*"
RESERVED: Final = "__"
"""Prefix of names that are reserved for Tidelog."""

_BIT: Final[Mapping[Operation, int]] = {operation: 1 << index for index, operation in enumerate(OPERATIONS)}
_ALLOWS_DESCRIBE: Final = ("Read", "Write", "Delete", "Alter")
_DENY_SHIFT: Final = 8
_ALLOW: Final = (1 << _DENY_SHIFT) - 1


class Acl(NamedTuple):
    """One ACL."""

    principal: str
    operation: Operation
    resource_type: ResourceType
    resource: str
    pattern: Pattern = "literal"
    permission: Permission = "allow"

    @property
    def bit(self) -> int:
        """Bit of the ACL among those of its key."""
        bit = _BIT[self.operation]
        return bit if self.permission == "allow" else bit << _DENY_SHIFT


def entry_key(principal: str, resource_type: str, pattern: str, resource: str) -> str:
    """Return the key of an ACL's entry. No part has a line break, since names have no control characters."""
    return f"{principal}\n{resource_type}\n{pattern}\n{resource}"


def acl_key(acl: Acl) -> str:
    """Return the key of the ACL's entry."""
    return entry_key(acl.principal, acl.resource_type, acl.pattern, acl.resource)


def entry_acls(key: str, bits: int) -> Iterator[Acl]:
    """Yield the ACLs of an entry: those that allow, then those that deny, by operation."""
    principal, resource_type, pattern, resource = key.split("\n", 3)
    for permission in get_args(Permission):
        for operation in OPERATIONS:
            acl = Acl(principal, operation, resource_type, resource, pattern, permission)  # type: ignore[arg-type]
            if bits & acl.bit:
                yield acl


def _allowing(operation: Operation) -> int:
    bits = _BIT[operation] | _BIT["All"]
    return bits | sum(_BIT[one] for one in _ALLOWS_DESCRIBE) if operation == "Describe" else bits


_ALLOWING: Final = {operation: _allowing(operation) for operation in OPERATIONS}
_DENYING: Final = {operation: (_BIT[operation] | _BIT["All"]) << _DENY_SHIFT for operation in OPERATIONS}


class AclDecision(NamedTuple):
    """A decision. ``by`` is the ACL that decided; None if none did, so that it is not allowed."""

    allowed: bool
    by: Acl | None


NO_DECISION: Final = AclDecision(allowed=False, by=None)


class Acls:
    """All ACLs at one version. Immutable."""

    __slots__ = ("_entries", "_lengths")

    def __init__(self, entries: dict[str, int], lengths: Mapping[str, int] | None = None) -> None:
        """Prepare the ACLs. ``entries``: bits by key. ``lengths``: prefix lengths kept by ``with_changes``; None:
        compute them."""
        self._entries = entries
        # For each principal and resource type: the lengths of its prefixes, as bits. A length may no longer have a prefix.
        self._lengths = _lengths_with({}, entries) if lengths is None else lengths

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Acls) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    @property
    def entries(self) -> Mapping[str, int]:
        """Bits by key."""
        return MappingProxyType(self._entries)

    def with_changes(self, changes: Mapping[str, int]) -> Acls:
        """Return the ACLs with these keys' bits replaced; 0 removes the entry."""
        entries = self._entries.copy()
        for key, bits in changes.items():
            if bits:
                entries[key] = bits
            else:
                entries.pop(key, None)
        return Acls(entries, _lengths_with(self._lengths, changes))

    def judge(self, principals: Iterable[str], operation: Operation, resource_type: str, resource: str) -> AclDecision:
        """Return whether any of these principals may do the operation, and by which ACL.

        Args:
            principals: the caller's own, its groups, its roles, and ``*``.
            operation: the operation.
            resource_type: the resource's type.
            resource: its name.
        """
        allowing, denying = _ALLOWING[operation], _DENYING[operation]
        allowed: AclDecision | None = None
        for key in self._keys(principals, resource_type, resource):
            bits = self._entries.get(key, 0)
            if bits & denying:
                return AclDecision(allowed=False, by=_first(key, bits & denying))
            if allowed is None and bits & allowing:
                allowed = AclDecision(allowed=True, by=_first(key, bits & allowing))
        return allowed or NO_DECISION

    def allow(self, principals: Iterable[str], operation: Operation, resource_type: str, resource: str) -> bool:
        """Return whether ``judge`` would allow it, in a third of the time."""
        allowing, denying, found = _ALLOWING[operation], _DENYING[operation], 0
        for key in self._keys(principals, resource_type, resource):
            found |= self._entries.get(key, 0)
        return not found & denying and found & allowing != 0

    def _keys(self, principals: Iterable[str], resource_type: str, resource: str) -> list[str]:
        """Return the keys of all entries that could apply to the resource."""
        is_reserved, keys = resource.startswith(RESERVED), []
        for principal in principals:
            owner = f"{principal}\n{resource_type}"
            keys.append(f"{owner}\nliteral\n{resource}")
            if not is_reserved:
                keys.append(f"{owner}\nliteral\n{EVERY}")
            lengths = self._lengths.get(owner)
            if lengths:
                if is_reserved:
                    lengths &= ~0b11  # a shorter prefix does not apply to reserved names
                lengths &= (2 << len(resource)) - 1
                while lengths:
                    lowest = lengths & -lengths
                    lengths ^= lowest
                    keys.append(f"{owner}\nprefix\n{resource[: lowest.bit_length() - 1]}")
        return keys


def _first(key: str, bits: int) -> Acl:
    return next(entry_acls(key, bits))


def _lengths_with(known: Mapping[str, int], changes: Mapping[str, int]) -> Mapping[str, int]:
    lengths: dict[str, int] | None = None
    for key, bits in changes.items():
        if not bits or "\nprefix\n" not in key:
            continue
        principal, resource_type, pattern, resource = key.split("\n", 3)
        if pattern == "prefix":
            lengths = dict(known) if lengths is None else lengths
            owner = f"{principal}\n{resource_type}"
            lengths[owner] = lengths.get(owner, 0) | 1 << len(resource)
    return known if lengths is None else lengths


NO_ACLS: Final = Acls({})
assert max(_BIT.values()) <= _ALLOW
