"""The content of a commit of ``system/access``: credentials, roles, ACLs, quotas, each replacing the earlier one of its name.

The changes are in the tag ``tidelog.access`` of the commit's ``add``, so that replay reads no data file. The data file has a row
for each change, for readers of the table with SQL.

1. Only the SHA-256 of a secret is stored.
2. ACLs are stored by principal, resource type, pattern and resource: ``log_format.access.acls``.
3. A name in a ``deleted_`` list is deleted. Quotas have no such list: a quota without limits is not the same as none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from log_format.delta.system_table import DocumentRow
from log_format.delta.tag_compression import compress_tag, decompress_tag

TAG_ACCESS: Final = "tidelog.access"


class Secret(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One secret of a token. ``sha256`` is in hexadecimal. Times are in milliseconds since the epoch."""

    sha256: str
    created_at_ms: int
    expires_at_ms: int


class CredentialRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A token: the principal that it stands for, and its secrets, the newest first; at most two."""

    id: str
    principal: str
    groups: tuple[str, ...]
    description: str
    created_at_ms: int
    secrets: tuple[Secret, ...]


class RoleRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A role, and the users and groups that have it."""

    role: str
    members: tuple[str, ...]


class QuotaRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The limits of a principal; None: no limit. ``principal`` is ``User:…``, or ``*`` for each user without a row."""

    principal: str
    produce_bytes_per_s: int | None = None
    fetch_bytes_per_s: int | None = None
    requests_per_s: int | None = None
    partitions_created_per_minute: int | None = None
    connections: int | None = None
    event_streams: int | None = None


class AccessChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of one decision. A commit has several, one after another."""

    credentials: tuple[CredentialRow, ...] = ()
    deleted_credentials: tuple[str, ...] = ()
    roles: tuple[RoleRow, ...] = ()
    deleted_roles: tuple[str, ...] = ()
    acls: dict[str, int] = {}
    """Key of ACLs -> the bits that are set from now on; 0 for none."""
    quotas: tuple[QuotaRow, ...] = ()

    def __bool__(self) -> bool:
        return self != _NOTHING


_NOTHING: Final = AccessChanges()
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[AccessChanges])


def change_rows(changes: Sequence[AccessChanges]) -> list[DocumentRow]:
    """Return kind, name and JSON (None: deleted) of each change, as in the data file."""
    return [row for one in changes for row in _rows(one)]


def _rows(changes: AccessChanges) -> Iterator[DocumentRow]:
    for credential in changes.credentials:
        yield "credential", credential.id, _document(credential)
    for name in changes.deleted_credentials:
        yield "credential", name, None
    for role in changes.roles:
        yield "role", role.role, _document(role)
    for name in changes.deleted_roles:
        yield "role", name, None
    for key, bits in changes.acls.items():
        yield "acl", key, str(bits) if bits else None
    for quota in changes.quotas:
        yield "quota", quota.principal, _document(quota)


def _document(row: CredentialRow | RoleRow | QuotaRow) -> str:
    members = msgspec.structs.asdict(row)
    if isinstance(row, CredentialRow):
        members["secrets"] = [msgspec.structs.asdict(secret) for secret in row.secrets]
    return _ENCODER.encode(members).decode()


def encode_tag(changes: Sequence[AccessChanges]) -> str:
    """Encode the tag of an ``add`` with these changes: JSON; if long, compressed with zlib, as base64."""
    return compress_tag(_ENCODER.encode(changes))


def decode_tag(tag: str) -> list[AccessChanges]:
    """Decode the result of ``encode_tag``. Raises ``ValueError`` for anything else."""
    return _DECODER.decode(decompress_tag(tag))
