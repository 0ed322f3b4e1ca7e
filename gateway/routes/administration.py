"""Audit of administrative requests: recorded after the change has happened or may have; with ``audit=required``, before it is
made.

With ``audit=required`` the trail therefore also has events of changes that are then refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

from starlette.requests import Request

from gateway.access.needs import Need, Needs
from gateway.asgi.auditing import Right, audit_event, denial_events
from gateway.gateway import JUDGED, gateway_of, may_alter_cluster
from gateway.http.parameters import path_text
from gateway.problem import as_tidelog_error
from log_format.access.acls import CLUSTER
from log_format.errors import RequestRefused

_ADMINISTRATIVE_OPERATIONS: Final = ("Create", "Alter", "Delete")
_TEST_PATH: Final = "/v1/access:test"
"""A POST that changes nothing."""


def administrative_right(needs: Needs, methods: Collection[str], path: str) -> Need | None:
    """Return the right that makes the route administrative; None if it is not."""
    if path == _TEST_PATH or not {"POST", "PUT", "PATCH", "DELETE"}.intersection(methods):
        return None
    return next((need for need in needs.rights if need.operation in _ADMINISTRATIVE_OPERATIONS), None)


async def administer(
    request: Request, need: Need, endpoint: Callable[..., Awaitable[Any]], values: Mapping[str, Any]
) -> Any:
    """Call the endpoint and audit the change. Raise as the endpoint does.

    Args:
        request: The request.
        need: The right that makes the route administrative.
        endpoint: Makes the change.
        values: The endpoint's arguments.

    Raises:
        BackOff: Auditing is required and the event could not be recorded; the endpoint was not called.
    """
    gateway = gateway_of(request)
    recording = gateway.recording
    if recording is None:
        return await endpoint(**values)

    def event(right: Right) -> Any:
        return audit_event(request.scope, "administration", right, gateway.clock.now_ms())

    if recording.is_required:
        await recording.record_durably(event(_right_before_check(request, need, values)))
        return await endpoint(**values)
    try:
        answer = await endpoint(**values)
    except Exception as error:
        if as_tidelog_error(error).may_have_happened:
            recording.note(event(_checked_right(request, need)))
        raise
    recording.note(event(_checked_right(request, need)))
    return answer


async def authorize_as_owner_or_administrator(
    request: Request, check: Awaitable[None], work: Callable[[], Awaitable[Any]]
) -> None:
    """Do the work if ``check`` does not refuse the caller. A caller that may alter the cluster may do it anyway, for example
    abort another's transaction or remove another's member; that is then audited as administration. Raise as both do."""
    try:
        await check
    except RequestRefused:
        if not may_alter_cluster(request):
            raise
        await administer(request, Need("Alter", "cluster"), work, {})
    else:
        await work()


def note_denials(request: Request, parts: Iterable[object]) -> None:
    """Record the rights that were missing for parts of an answer."""
    gateway = gateway_of(request)
    if gateway.recording is not None:
        for event in denial_events(request.scope, parts, gateway.clock.now_ms()):
            gateway.recording.note(event)


def _checked_right(request: Request, need: Need) -> Right:
    """Return the right that was checked, by the path or by the body."""
    found: Right = request.scope.get(JUDGED, (need.operation, need.resource_type, None))
    return _right_of_path(request, need) or found


def _right_before_check(request: Request, need: Need, values: Mapping[str, Any]) -> Right:
    """Return the right as ``_checked_right`` does, but before the endpoint has checked it: a body has the new resource's name in
    ``name``."""
    names = (getattr(value, "name", None) for value in values.values() if value is not request)
    return _right_of_path(request, need) or (need.operation, need.resource_type, next(filter(None, names), None))


def _right_of_path(request: Request, need: Need) -> Right | None:
    if need.path is not None:
        return need.operation, need.resource_type, path_text(request, need.path)
    return (need.operation, need.resource_type, CLUSTER) if need.is_judged_ahead else None
