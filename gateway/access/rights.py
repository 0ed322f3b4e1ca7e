"""What callers may do: the ACLs of ``system/access``, asked in a few microseconds.

1. With ``enforced`` false everything is allowed, and asking costs nothing.
2. A state that is older than ``STALE_MS`` answers nothing: the caller is told to come back (503), never let in. Ahead of each
   judgement that may wait, one older than ``RENEWED_MS`` is looked up anew (``renew``). Where that is in vain it refuses no one
   for good: what it lacks may have been given meanwhile.
3. No caller, super users included, creates, writes or deletes the topic of audit events.
4. Answers are remembered until the table changes: at once where the change was made, elsewhere with the next look.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, Literal, NamedTuple

from gateway.access.caller import Caller
from gateway.tables.access import AccessTable
from log_format.access.acls import EVERY, Acl, Operation, ResourceType
from log_format.access.state import AccessState
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.layout import AUDIT_TOPIC

STALE_MS: Final = 60_000
RENEWED_MS: Final = 5_000
"""Within so long a change holds everywhere. An older state is that of a process that stood still, or of a store that fails."""
RENEWAL_MS_MAX: Final = 2_000
RENEWALS_MAX: Final = 2
"""A process that stands still amid a look has nothing of it: it looks once more."""
BOOTSTRAP: Final = "User:bootstrap"
REMEMBERED_MAX: Final = 20_000
"""Answers; and callers with their roles. Each takes some 300 bytes."""

AUDIT_DENIED: Final = ("Create", "Write", "Delete")
"""What no caller may do with the topic of audit events."""

Reason = Literal["super_user", "allow", "deny", "default"]


class Unauthorized(RequestRefused, code=ErrorCode.UNAUTHORIZED):
    """403: the caller lacks a right, which the fields name. Whether the resource exists is not said."""

    def __init__(self, operation: Operation, resource_type: ResourceType, resource: str) -> None:
        super().__init__(
            f"This needs {operation} on {resource_type} {resource[:300]!r}, which the caller has not.",
            operation=operation,
            resource_type=resource_type,
            resource=resource,
        )


class Judgement(NamedTuple):
    """An answer with its reason. ``acl`` decided, where an ACL did."""

    allowed: bool
    reason: Reason
    acl: Acl | None


class Rights:
    """``table`` None: nothing is enforced. ``super_users`` may do all, and ``User:bootstrap`` too."""

    def __init__(
        self,
        table: AccessTable | None = None,
        super_users: Collection[str] = (),
        *,
        remembered_max: int = REMEMBERED_MAX,
    ) -> None:
        self._remembered_max = remembered_max
        self.enforced = table is not None
        self._table = table
        self._super_users = frozenset(super_users) | {BOOTSTRAP}
        self._renewed_in_vain_at_ms: int | None = None
        """When the last look that succeeded was, as the store was waited for in vain."""
        self._state: AccessState | None = None
        self._allowed: dict[tuple[str, tuple[str, ...], Operation, ResourceType, str], bool] = {}
        self._principals: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}

    @property
    def remembered_count(self) -> int:
        """How many answers and callers are remembered."""
        return len(self._allowed) + len(self._principals)

    @property
    def revision(self) -> int:
        """Rises with each change of rights that this gateway learns of."""
        return -1 if self._table is None else self._table.state.version

    async def changed(self, revision: int) -> None:
        """Return once ``revision`` is no longer this one. Without enforcement that is never."""
        if self._table is None:
            await asyncio.Event().wait()
        else:
            await self._table.after(revision)

    async def reach(self, revision: int) -> None:
        """Look again where what is known is older than this revision. Raises ``BackOff``."""
        if self._table is not None and self._table.state.version < revision:
            await self._table.fresh()

    @property
    def is_recent(self) -> bool:
        """Whether each change that must hold everywhere by now is known here. Then ``renew`` does nothing."""
        return self._table is None or self._table.is_known_since(RENEWED_MS)

    async def renew(self) -> None:
        """Look at the table where the last look is older than ``RENEWED_MS``: a process that stood still goes by what is.

        A store that fails is waited for once, for ``RENEWAL_MS_MAX``; from then on ``STALE_MS`` is the bound.
        """
        table = self._table
        for _ in range(RENEWALS_MAX):
            if table is None or self.is_recent or self._renewed_in_vain_at_ms == table.log.observed_ms:
                return
            observed_ms, began_ms = table.log.observed_ms, table.log.clock.monotonic_ms()
            try:
                async with asyncio.timeout(RENEWAL_MS_MAX / 1000):
                    await table.fresh()
            except (TidelogError, TimeoutError):
                if table.log.clock.monotonic_ms() - began_ms < 2 * RENEWAL_MS_MAX:
                    self._renewed_in_vain_at_ms = observed_ms

    def check_recent(self) -> None:
        """Raise ``BackOff`` (``UNAVAILABLE``) where the state is too old to refuse anyone for good by what it lacks."""
        if not self.is_recent:
            raise BackOff("The gateway can't read the access table: what is new there is not known.")

    def check_age(self) -> None:
        """Raise ``BackOff`` (``UNAVAILABLE``) where the state is too old to let anyone in by it."""
        if self._table is not None and not self._table.is_known_since(STALE_MS):
            raise BackOff("The gateway can't read the access table, so it lets no client in.")

    def require(self, caller: Caller, operation: Operation, resource_type: ResourceType, resource: str) -> None:
        """Raise ``Unauthorized`` unless the caller may; ``BackOff`` where that is not known."""
        if not self.allows(caller, operation, resource_type, resource):
            self.check_recent()
            raise Unauthorized(operation, resource_type, resource)

    def allows(self, caller: Caller, operation: Operation, resource_type: ResourceType, resource: str) -> bool:
        """Whether the caller may. Raises ``BackOff`` where that is not known."""
        if self._table is None:
            return True
        if resource == AUDIT_TOPIC and resource_type == "topic" and operation in AUDIT_DENIED:
            return False
        self.check_age()
        state = self._table.state
        if state is not self._state:
            self._begin(state)
        if caller.principal in self._super_users:
            return True
        key = (caller.principal, caller.groups, operation, resource_type, resource)
        known = self._allowed.get(key)
        if known is None:
            if len(self._allowed) >= self._remembered_max:
                self._allowed.clear()
            principals = self._principals_of(caller)
            known = state.acls.allow(principals, operation, resource_type, resource)
            self._allowed[key] = known
        return known

    def allowing(self, caller: Caller, operation: Operation, resource_type: ResourceType) -> Callable[[str], bool]:
        """``allows`` as a function of the resource, for parts that filter."""
        return partial(self.allows, caller, operation, resource_type)

    def judge(self, caller: Caller, operation: Operation, resource_type: ResourceType, resource: str) -> Judgement:
        """Whether the caller may, and why. Nothing is remembered."""
        if (
            self._table is not None
            and resource == AUDIT_TOPIC
            and resource_type == "topic"
            and operation in AUDIT_DENIED
        ):
            return Judgement(allowed=False, reason="deny", acl=None)
        if self._table is None or caller.principal in self._super_users:
            return Judgement(allowed=True, reason="super_user", acl=None)
        found = self._table.state.acls.judge(self._principals_of(caller), operation, resource_type, resource)
        if found.by is None:
            return Judgement(allowed=False, reason="default", acl=None)
        return Judgement(allowed=found.allowed, reason=found.by.permission, acl=found.by)

    def is_super_user(self, caller: Caller) -> bool:
        """Whether the caller may do all."""
        return self.enforced and caller.principal in self._super_users

    def roles_of(self, caller: Caller) -> list[str]:
        """The roles that the caller has, as ``Role:…``, by name."""
        if self._table is None:
            return []
        own = {caller.principal, *caller.groups}
        roles = self._table.state.roles.values()
        return sorted(f"Role:{role.role}" for role in roles if not own.isdisjoint(role.members))

    def _begin(self, state: AccessState) -> None:
        self._state = state
        self._allowed.clear()
        self._principals.clear()

    def _principals_of(self, caller: Caller) -> tuple[str, ...]:
        """All under which ACLs may name the caller."""
        assert self._table is not None
        if self._table.state is not self._state:
            self._begin(self._table.state)
        key = (caller.principal, caller.groups)
        known = self._principals.get(key)
        if known is None:
            if len(self._principals) >= self._remembered_max:
                self._principals.clear()
            known = self._principals[key] = (caller.principal, *caller.groups, *self.roles_of(caller), EVERY)
        return known


OPEN: Final = Rights()
"""Of a gateway without authentication."""
