"""The state of ``system/access`` at one version.

1. For each name only the newest row counts. Nothing is forgotten by time: a token whose secrets have expired stays until it is
   deleted.
2. The state follows from the live ``add`` actions in the order of their times. A rewrite (``dataChange`` false) only changes
   which files are live.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Self, TypeVar

from log_format import layout
from log_format.access.acls import NO_ACLS, Acls
from log_format.access.row import TAG_ACCESS, AccessChanges, CredentialRow, QuotaRow, RoleRow, decode_tag
from log_format.checkpoints.system_table import system_table
from log_format.delta.actions import Add
from log_format.delta.system_table import SystemTableState, decode_add_tag
from log_format.delta.table import Table

NAME: Final = "system/access"

CREDENTIAL_BYTES: Final = 1_536
ROLE_BYTES: Final = 640
_NAME_BYTES: Final = 128
"""Bytes of a group of a token, or a member of a role, without its characters."""
ACL_BYTES: Final = 320
"""Bytes of a key of an ACL with its bits, without the characters of principal and resource: measured on CPython 3.11,
rounded up."""
QUOTA_BYTES: Final = 640

RowT = TypeVar("RowT")


def _nothing() -> Mapping[str, RowT]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessState(SystemTableState):
    """Tokens, roles, ACLs and quotas, at one version. Immutable."""

    credentials: Mapping[str, CredentialRow] = field(default_factory=_nothing)
    """Tokens by id."""
    roles: Mapping[str, RoleRow] = field(default_factory=_nothing)
    """Roles by name."""
    acls: Acls = field(default_factory=lambda: NO_ACLS)
    quotas: Mapping[str, QuotaRow] = field(default_factory=_nothing)
    """Quotas by principal."""
    memory_bytes: int = field(default=0, compare=False)
    """Estimated memory of the rows in bytes."""

    def with_adds(self, adds: Iterable[Add]) -> Self:
        """Return the state after the changes in the tags of these ``add``. Raises ``CorruptData``."""
        return self.after(one for add in adds for one in decode_changes(add.path, add.tags or {}))

    def after(self, changes: Iterable[AccessChanges]) -> Self:
        """Return the state after these changes; version and files stay."""
        state = self
        for one in changes:
            grown = growth_bytes(one, state)
            state = replace(
                state,
                credentials=_replaced(
                    state.credentials, {row.id: row for row in one.credentials}, one.deleted_credentials
                ),
                roles=_replaced(state.roles, {row.role: row for row in one.roles}, one.deleted_roles),
                acls=state.acls.with_changes(one.acls) if one.acls else state.acls,
                quotas=_replaced(state.quotas, {row.principal: row for row in one.quotas}, ()),
                memory_bytes=state.memory_bytes + grown,
            )
        return state


def growth_bytes(changes: AccessChanges, state: AccessState) -> int:
    """Return by how many bytes the changes make the state larger; negative if smaller."""
    grown = 0
    for credential in changes.credentials:
        grown += _credential_bytes(credential) - _credential_bytes(state.credentials.get(credential.id))
    grown -= sum(_credential_bytes(state.credentials.get(name)) for name in changes.deleted_credentials)
    for role in changes.roles:
        grown += _role_bytes(role) - _role_bytes(state.roles.get(role.role))
    grown -= sum(_role_bytes(state.roles.get(name)) for name in changes.deleted_roles)
    entries = state.acls.entries
    for key, bits in changes.acls.items():
        grown += (acl_bytes(key) if bits else 0) - (acl_bytes(key) if key in entries else 0)
    for quota in changes.quotas:
        grown += 0 if quota.principal in state.quotas else QUOTA_BYTES + len(quota.principal)
    return grown


def acl_bytes(key: str) -> int:
    """Return the bytes of an entry of ACLs."""
    return ACL_BYTES + len(key)


def _credential_bytes(row: CredentialRow | None) -> int:
    if row is None:
        return 0
    return CREDENTIAL_BYTES + 4 * len(row.description) + sum(_NAME_BYTES + 4 * len(group) for group in row.groups)


def _role_bytes(row: RoleRow | None) -> int:
    return 0 if row is None else ROLE_BYTES + sum(2 * (_NAME_BYTES + 4 * len(member)) for member in row.members)


def _replaced(known: Mapping[str, RowT], rows: Mapping[str, RowT], deleted: Iterable[str]) -> Mapping[str, RowT]:
    gone = frozenset(deleted)
    if not rows and not gone:
        return known
    return MappingProxyType({**{name: row for name, row in known.items() if name not in gone}, **rows})


def access_table() -> Table[AccessState]:
    """Return the description of the table."""
    return system_table(layout.ACCESS_ROOT, "the access table", AccessState)


def decode_changes(path: str, tags: Mapping[str, str | None]) -> list[AccessChanges]:
    """Return the changes in an ``add``. Raises ``CorruptData``."""
    return decode_add_tag(NAME, path, tags, TAG_ACCESS, decode_tag)


def snapshot(state: AccessState) -> AccessChanges:
    """Return the changes that give all of ``state``."""
    return AccessChanges(
        credentials=tuple(state.credentials.values()),
        roles=tuple(state.roles.values()),
        acls=dict(state.acls.entries),
        quotas=tuple(state.quotas.values()),
    )
