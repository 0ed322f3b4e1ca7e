"""Rights of callers: decisions by the ACLs of ``system/access``, in a few microseconds.

1. With ``enforced`` false everything is allowed, at no cost.
2. A state older than ``STALE_MS`` answers nothing: the caller is told to retry (503), and never admitted. Before each decision
   that may wait, a state older than ``RENEWED_MS`` is refreshed (``renew``). If the refresh fails, nobody is refused for good: a
   missing right may have been granted meanwhile.
3. No caller, super users included, creates, writes or deletes a topic that gateways write for themselves.
4. Answers are cached until the table changes: immediately on the gateway that made the change, elsewhere with the next look.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, Literal, NamedTuple

from gateway.access.caller import Caller
from gateway.system_tables.access import AccessTable
from log_format.access.acls import EVERY, Acl, Operation, ResourceType
from log_format.access.state import AccessState
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.layout import OWN_TOPICS

STALE_MS: Final = 60_000
RENEWED_MS: Final = 5_000
"""Time within which a change takes effect everywhere. A state is older only if the process was paused, or the store fails."""
RENEWAL_MS_MAX: Final = 2_000
RENEWALS_MAX: Final = 2
"""Most looks for one renewal: a look during which the process was paused may show an old state, so another one follows."""
BOOTSTRAP: Final = "User:bootstrap"
REMEMBERED_MAX: Final = 20_000
"""Most cached answers, and most cached callers with their roles. Each takes some 300 bytes."""

OWN_TOPICS_DENIED: Final = ("Create", "Write", "Delete")
"""Operations on the gateways' own topics that no caller may do."""

Reason = Literal["super_user", "allow", "deny", "default"]


class Unauthorized(RequestRefused, code=ErrorCode.UNAUTHORIZED):
    """403: the caller lacks the right that the fields name. The answer does not reveal whether the resource exists."""

    def __init__(self, operation: Operation, resource_type: ResourceType, resource: str) -> None:
        super().__init__(
            f"This needs {operation} on {resource_type} {resource[:300]!r}; the caller does not have this right.",
            operation=operation,
            resource_type=resource_type,
            resource=resource,
        )


class Judgement(NamedTuple):
    """An answer with its reason. ``acl``: the ACL that decided, if one did."""

    allowed: bool
    reason: Reason
    acl: Acl | None


class Rights:
    """Rights of callers. ``table`` None: nothing is enforced. ``super_users`` may do everything, and so may
    ``User:bootstrap``."""

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
        """Time of the last successful look when a renewal last failed; None if none has failed."""
        self._state: AccessState | None = None
        self._allowed: dict[tuple[str, tuple[str, ...], Operation, ResourceType, str], bool] = {}
        self._principals: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}

    @property
    def remembered_count(self) -> int:
        """Number of cached answers and callers."""
        return len(self._allowed) + len(self._principals)

    @property
    def revision(self) -> int:
        """Version of the rights: it increases with each change that this gateway learns of."""
        return -1 if self._table is None else self._table.state.version

    async def wait_changed(self, revision: int) -> None:
        """Wait until the revision differs from ``revision``. Without enforcement that is never."""
        if self._table is None:
            await asyncio.Event().wait()
        else:
            await self._table.wait_past(revision)

    async def refresh_to(self, revision: int) -> None:
        """Look again if the known state is older than this revision. Raise ``BackOff``."""
        if self._table is not None and self._table.state.version < revision:
            await self._table.fresh()

    @property
    def is_recent(self) -> bool:
        """Whether every change that must have taken effect by now is known here. Then ``renew`` does nothing."""
        return self._table is None or self._table.is_known_since(RENEWED_MS)

    async def refresh_if_old(self) -> None:
        """Look at the table if the last look is older than ``RENEWED_MS``, so that a process that was paused decides by the
        present state.

        A failing store is waited for once, for ``RENEWAL_MS_MAX``; from then on ``STALE_MS`` is the bound.
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
        """Raise ``BackOff`` (``UNAVAILABLE``) if the state is too old to refuse anyone for good by what it lacks."""
        if not self.is_recent:
            raise BackOff("The gateway can't read the access table, so recent changes of rights are not known.")

    def check_age(self) -> None:
        """Raise ``BackOff`` (``UNAVAILABLE``) if the state is too old to admit anyone by it."""
        if self._table is not None and not self._table.is_known_since(STALE_MS):
            raise BackOff("The gateway can't read the access table, so it refuses all clients.")

    def require(self, caller: Caller, operation: Operation, resource_type: ResourceType, resource: str) -> None:
        """Raise ``Unauthorized`` unless the caller has the right; ``BackOff`` if that is not known."""
        if not self.allows(caller, operation, resource_type, resource):
            self.check_recent()
            raise Unauthorized(operation, resource_type, resource)

    def allows(self, caller: Caller, operation: Operation, resource_type: ResourceType, resource: str) -> bool:
        """Return whether the caller has the right. Raise ``BackOff`` if that is not known."""
        if self._table is None:
            return True
        if resource in OWN_TOPICS and resource_type == "topic" and operation in OWN_TOPICS_DENIED:
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

    def allowed_filter(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> Callable[[str], bool]:
        """Return ``allows`` as a function of the resource, for code that filters."""
        return partial(self.allows, caller, operation, resource_type)

    def judge(self, caller: Caller, operation: Operation, resource_type: ResourceType, resource: str) -> Judgement:
        """Return whether the caller has the right, and why. Nothing is cached."""
        if (
            self._table is not None
            and resource in OWN_TOPICS
            and resource_type == "topic"
            and operation in OWN_TOPICS_DENIED
        ):
            return Judgement(allowed=False, reason="deny", acl=None)
        if self._table is None or caller.principal in self._super_users:
            return Judgement(allowed=True, reason="super_user", acl=None)
        found = self._table.state.acls.judge(self._principals_of(caller), operation, resource_type, resource)
        if found.by is None:
            return Judgement(allowed=False, reason="default", acl=None)
        return Judgement(allowed=found.allowed, reason=found.by.permission, acl=found.by)

    def is_super_user(self, caller: Caller) -> bool:
        """Return whether the caller may do everything."""
        return self.enforced and caller.principal in self._super_users

    def roles_of(self, caller: Caller) -> list[str]:
        """Return the caller's roles, as ``Role:…``, sorted."""
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
        """Return all principals under which ACLs may name the caller."""
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
"""The rights of a gateway without authentication."""
