"""Tokens, roles, ACLs, quotas and the caller's identity: the calls below ``/v1/access``, ``/v1/whoami`` and
``/v1/credentials``.

A change that a retry could duplicate or undo is not retried after a lost answer: it raises ``OutcomeUnknown``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, Unpack

from tidelog.calls.pages import paged
from tidelog.calls.requests import json_request
from tidelog.deadline import Deadline
from tidelog.errors import UnknownRole, UnknownToken
from tidelog.http.transport import Reply, Transport, target
from tidelog.types.access import (
    AccessDecision,
    AccessToken,
    Acl,
    AclMembers,
    Caller,
    NewAccessToken,
    Operation,
    Quota,
    ResourceType,
    Role,
    StoreCredentials,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Acls:
    acls: tuple[Acl, ...]


class AccessCalls:
    """Calls of ``Admin`` about access. All but ``whoami`` and ``store_credentials`` need Alter on the cluster."""

    def __init__(self, transport: Transport, timeout_ms: float) -> None:
        self._transport = transport
        self._timeout_ms = timeout_ms

    def whoami(self) -> Caller:
        """Return the identity by which the gateway knows this client."""
        return self._get(target("whoami")).decode(Caller)

    # Tokens

    def create_token(
        self, principal: str, *, groups: Iterable[str] = (), description: str = "", expires_at: int | None = None
    ) -> NewAccessToken:
        """Create a token for a user (``User:…``) in these groups (``Group:…``). Only this answer has its secret.

        ``expires_at``: milliseconds since the epoch, at most 366 days from now; None: in 90 days. Never retried.
        """
        body: dict[str, Any] = {"principal": principal, "groups": list(groups), "description": description}
        if expires_at is not None:
            body["expires_at"] = expires_at
        return self._call("POST", target("access", "tokens"), body, repeatable=False).decode(NewAccessToken)

    def list_tokens(self, principal: str | None = None) -> list[AccessToken]:
        """Return all tokens, or those of one user, without their secrets."""
        return list(
            paged(
                "tokens",
                AccessToken,
                lambda after: self._get(target("access", "tokens", principal=principal, after=after)),
            )
        )

    def rotate_token(
        self, token_id: str, *, overlap_ms: int | None = None, expires_at: int | None = None
    ) -> NewAccessToken:
        """Add a secret to a token. The previous one stays valid for ``overlap_ms`` (0 to 7 days; None: a day), older ones
        expire.

        Never retried. Raises ``UnknownToken``.
        """
        given = {"overlap_ms": overlap_ms, "expires_at": expires_at}
        body = {name: value for name, value in given.items() if value is not None}
        where = target("access", "tokens", token_id, action="rotate")
        return self._call("POST", where, body, repeatable=False).decode(NewAccessToken)

    def revoke_token(self, token_id: str, *, missing_ok: bool = False) -> None:
        """Revoke a token, on all gateways within 5 s. Retried automatically. Raises ``UnknownToken`` unless ``missing_ok``."""
        try:
            self._call("DELETE", target("access", "tokens", token_id), None, repeatable=True)
        except UnknownToken as error:
            if not missing_ok and not error.after_doubt:
                raise

    # Roles

    def list_roles(self) -> list[Role]:
        """Return all roles, sorted by name."""
        return list(paged("roles", Role, lambda after: self._get(target("access", "roles", after=after))))

    def put_role(self, role: str, members: Iterable[str]) -> Role:
        """Set a role's members to exactly these. Retried automatically."""
        body = {"members": list(members)}
        return self._call("PUT", target("access", "roles", role), body, repeatable=True).decode(Role)

    def delete_role(self, role: str, *, missing_ok: bool = False) -> None:
        """Delete a role. Retried automatically. Raises ``UnknownRole`` unless ``missing_ok``."""
        try:
            self._call("DELETE", target("access", "roles", role), None, repeatable=True)
        except UnknownRole as error:
            if not missing_ok and not error.after_doubt:
                raise

    # ACLs

    def add_acls(self, acls: Iterable[Acl]) -> list[Acl]:
        """Add 1 to 1,000 ACLs, all or nothing; existing ones are unchanged. Retried automatically."""
        body = {"acls": [dataclasses.asdict(each) for each in acls]}
        return list(self._call("POST", target("access", "acls"), body, repeatable=True).decode(_Acls).acls)

    def list_acls(self, **named: Unpack[AclMembers]) -> list[Acl]:
        """Return the ACLs that match all given members."""
        return list(paged("acls", Acl, lambda after: self._get(_acls(named, after))))

    def delete_acls(self, **named: Unpack[AclMembers]) -> list[Acl]:
        """Delete the ACLs that match all given members, and return them. Never retried.

        Raises ``ValueError`` when nothing is given, which would match all ACLs.
        """
        if not any(named.values()):
            raise ValueError("give at least one condition for the ACLs to remove: without one, all would be removed")
        return list(self._call("DELETE", _acls(named), None, repeatable=False).decode(_Acls).acls)

    def test_access(
        self,
        principal: str,
        operation: Operation,
        resource_type: ResourceType,
        resource: str,
        *,
        groups: Iterable[str] = (),
    ) -> AccessDecision:
        """Return whether this user, in these groups, is allowed the operation, and which ACL decides."""
        body = {
            "principal": principal,
            "groups": list(groups),
            "operation": operation,
            "resource_type": resource_type,
            "resource": resource,
        }
        where = target("access", action="test")
        return self._call("POST", where, body, repeatable=True, reads=True).decode(AccessDecision)

    # Quotas

    def list_quotas(self) -> list[Quota]:
        """Return all quotas, sorted by principal."""
        return list(paged("quotas", Quota, lambda after: self._get(target("access", "quotas", after=after))))

    def describe_quota(self, principal: str) -> Quota:
        """Return the quota of ``User:…``, or of ``*``: each principal without a quota of its own."""
        return self._get(target("access", "quotas", principal)).decode(Quota)

    def set_quota(self, quota: Quota) -> Quota:
        """Replace the principal's quota. Retried automatically."""
        body = dataclasses.asdict(quota)
        where = target("access", "quotas", body.pop("principal"))
        return self._call("PUT", where, body, repeatable=True).decode(Quota)

    # Direct access to the store

    def store_credentials(
        self, topics: Iterable[str], *, access: Literal["read", "append"] = "read", duration_s: int = 900
    ) -> StoreCredentials:
        """Return temporary credentials (900 to 3,600 s) for the tables of 1 to 20 topics. Retried automatically.

        Needs Read or Write on each topic. Raises ``VendingUnavailable`` if the gateway has none to give.
        """
        body = {"topics": list(topics), "access": access, "duration_s": duration_s}
        return self._call("POST", target("credentials"), body, repeatable=True).decode(StoreCredentials)

    def _get(self, where: str) -> Reply:
        return self._call("GET", where, None, repeatable=True, reads=True)

    def _call(self, method: str, where: str, body: object, *, repeatable: bool, reads: bool = False) -> Reply:
        request = json_request(method, where, body, repeatable=repeatable, reads=reads)
        return self._transport.call(request, Deadline(self._timeout_ms))


def _acls(named: AclMembers, after: str | None = None) -> str:
    """Return the request target for the ACLs that match all given members."""
    return target(
        "access",
        "acls",
        principal=named.get("principal"),
        operation=named.get("operation"),
        resource_type=named.get("resource_type"),
        resource=named.get("resource"),
        pattern=named.get("pattern"),
        permission=named.get("permission"),
        after=after,
    )
