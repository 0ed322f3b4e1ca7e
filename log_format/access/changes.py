"""Decisions about credentials, roles, ACLs and quotas. Many share one commit of ``system/access``.

A decision is judged at the state with the earlier decisions of its commit applied, and again at each newer head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from log_format.access.acls import Acl, acl_key, entry_acls
from log_format.access.row import (
    TAG_ACCESS,
    AccessChanges,
    CredentialRow,
    QuotaRow,
    RoleRow,
    Secret,
    change_rows,
    encode_tag,
)
from log_format.access.state import NAME, AccessState, snapshot
from log_format.delta.system_table import (
    DOCUMENTS_SCHEMA,
    CompactTable,
    SystemTable,
    TableContents,
    documents_contents,
)
from log_format.delta.system_table import Decide as SharedDecide
from log_format.errors import ErrorCode, RequestRefused, TidelogError

SECRETS_MAX: Final = 2
"""Most live secrets of a token: clients change from one to the other at their own time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedDecision:
    """The changes that a decision wrote, if any were needed. ``deleted``: the ACLs that were deleted."""

    changes: AccessChanges
    deleted: tuple[Acl, ...] = ()


Outcome = AppliedDecision | TidelogError


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken:
    """A decision that creates a token. ``row`` has its one secret; its times are the decision's."""

    row: CredentialRow

    def decide(self, state: AccessState, _now_ms: int) -> Outcome:
        """Return the row. Ids have 62^16 values, so a duplicate means that the issuer's random numbers are broken."""
        if self.row.id in state.credentials:
            return TidelogError("The new token has the id of another. Its maker draws no random numbers.")
        return AppliedDecision(changes=AccessChanges(credentials=(self.row,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateToken:
    """A decision that gives a token a new secret. The previous newest one lives at most ``overlap_ms`` more, older ones end."""

    id: str
    secret: Secret
    overlap_ms: int

    def decide(self, state: AccessState, now_ms: int) -> Outcome:
        """Return the row with at most two secrets, the newest first."""
        row = state.credentials.get(self.id)
        if row is None:
            return unknown_token_error(self.id)
        ends_ms = min(row.secrets[0].expires_at_ms, now_ms + self.overlap_ms)
        last = msgspec.structs.replace(row.secrets[0], expires_at_ms=ends_ms)
        kept = (last,) if ends_ms > now_ms else ()
        row = msgspec.structs.replace(row, secrets=(self.secret, *kept)[:SECRETS_MAX])
        return AppliedDecision(changes=AccessChanges(credentials=(row,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteToken:
    """A decision that revokes a token."""

    id: str

    def decide(self, state: AccessState, _now_ms: int) -> Outcome:
        """Return the deletion."""
        if self.id not in state.credentials:
            return unknown_token_error(self.id)
        return AppliedDecision(changes=AccessChanges(deleted_credentials=(self.id,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRole:
    """A decision that creates a role, or replaces its members."""

    row: RoleRow

    def decide(self, state: AccessState, _now_ms: int) -> Outcome:
        """Return the row, unless it is there already."""
        is_known = state.roles.get(self.row.role) == self.row
        return AppliedDecision(changes=AccessChanges(roles=() if is_known else (self.row,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRole:
    """A decision that deletes a role. ACLs that name it stay, and apply to its members again if it is re-created."""

    role: str

    def decide(self, state: AccessState, _now_ms: int) -> Outcome:
        """Return the deletion."""
        if self.role not in state.roles:
            return RequestRefused(f"There is no role {self.role!r}.", code=ErrorCode.UNKNOWN_ROLE)
        return AppliedDecision(changes=AccessChanges(deleted_roles=(self.role,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAcls:
    """A decision that adds all of these ACLs."""

    acls: tuple[Acl, ...]

    def decide(self, state: AccessState, _now_ms: int) -> Outcome:
        """Return the entries that change; none if all ACLs exist already."""
        bits: dict[str, int] = {}
        for acl in self.acls:
            key = acl_key(acl)
            bits[key] = bits.get(key, state.acls.entries.get(key, 0)) | acl.bit
        changed = {key: new for key, new in bits.items() if new != state.acls.entries.get(key)}
        return AppliedDecision(changes=AccessChanges(acls=changed))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAcls:
    """A decision that deletes the ACLs that ``matches`` accepts."""

    matches: Callable[[Acl], bool]

    def decide(self, state: AccessState, _now_ms: int) -> Outcome:
        """Return the entries that change, and the deleted ACLs, sorted by key."""
        bits: dict[str, int] = {}
        deleted: list[Acl] = []
        for key, before in sorted(state.acls.entries.items()):
            for acl in entry_acls(key, before):
                if self.matches(acl):
                    bits[key] = bits.get(key, before) & ~acl.bit
                    deleted.append(acl)
        return AppliedDecision(changes=AccessChanges(acls=bits), deleted=tuple(deleted))


@dataclass(frozen=True, slots=True, kw_only=True)
class PutQuota:
    """A decision that sets a principal's quota, replacing an earlier one."""

    row: QuotaRow

    def decide(self, state: AccessState, _now_ms: int) -> Outcome:
        """Return the row, unless it is there already."""
        is_known = state.quotas.get(self.row.principal) == self.row
        return AppliedDecision(changes=AccessChanges(quotas=() if is_known else (self.row,)))


AccessDecision = CreateToken | RotateToken | DeleteToken | PutRole | DeleteRole | AddAcls | DeleteAcls | PutQuota
"""Change to tokens, roles, ACLs or quotas. ``decide`` is pure: it returns what to write (perhaps nothing), or the refusal."""


class Decide(SharedDecide[AccessState, AccessDecision, Outcome]):
    """A change that commits several decisions about tokens, roles, ACLs and quotas."""

    table = SystemTable(name=NAME, schema=DOCUMENTS_SCHEMA, directory="rows")

    def judge(
        self, decisions: Sequence[AccessDecision], state: AccessState, now_ms: int
    ) -> tuple[list[Outcome], TableContents | None]:
        """Return what each decision changed."""
        outcomes: list[Outcome] = []
        changes: list[AccessChanges] = []
        ahead = state
        for decision in decisions:
            outcome = decision.decide(ahead, now_ms)
            outcomes.append(outcome)
            if isinstance(outcome, AppliedDecision) and outcome.changes:
                ahead = ahead.after((outcome.changes,))
                changes.append(outcome.changes)
        return outcomes, _contents(changes, now_ms) if changes else None


class Compact(CompactTable[AccessState]):
    """A change that compacts the table, as ``CompactTable`` describes."""

    def contents(self, state: AccessState) -> TableContents:
        """Return all rows in their current state, as of the newest change."""
        return _contents([snapshot(state)], state.modification_time_ms)


def unknown_token_error(token_id: str) -> TidelogError:
    """Return the error for changing a token that does not exist."""
    return RequestRefused(f"There is no token {token_id[:100]!r}.", code=ErrorCode.UNKNOWN_TOKEN)


def _contents(changes: Sequence[AccessChanges], now_ms: int) -> TableContents:
    return documents_contents(change_rows(changes), now_ms, {TAG_ACCESS: encode_tag(changes)})
