"""Records administration in the audit trail: once it has happened, or may have; with ``audit=required`` before it is done.

An event that is written first is also one of a change that is then refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

from starlette.requests import Request

from gateway.access.needs import Need, Needs
from gateway.asgi.auditing import Right, denials_of, event_of
from gateway.gateway import JUDGED, gateway_of, may_alter_cluster
from gateway.http.parameters import path_text
from gateway.problem import as_tidelog_error
from log_format.access.acls import CLUSTER
from log_format.errors import RequestRefused

_ADMINISTERS: Final = ("Create", "Alter", "Delete")
_ASKS: Final = "/v1/access:test"
"""A POST that changes nothing."""


def administration_of(needs: Needs, methods: Collection[str], path: str) -> Need | None:
    """The right by which the route administers; None: it does not."""
    if path == _ASKS or not {"POST", "PUT", "PATCH", "DELETE"}.intersection(methods):
        return None
    return next((need for need in needs.rights if need.operation in _ADMINISTERS), None)


async def administered(
    request: Request, need: Need, endpoint: Callable[..., Awaitable[Any]], values: Mapping[str, Any]
) -> Any:
    """What the endpoint answers. Raises as the endpoint, and ``BackOff`` where it can't be recorded and must be."""
    gateway = gateway_of(request)
    recording = gateway.recording
    if recording is None:
        return await endpoint(**values)

    def event(right: Right) -> Any:
        return event_of(request.scope, "administration", right, gateway.clock.now_ms())

    if recording.is_required:
        await recording.recorded(event(_named_ahead(request, need, values)))
        return await endpoint(**values)
    try:
        answer = await endpoint(**values)
    except Exception as error:
        if as_tidelog_error(error).may_have_happened:
            recording.note(event(_judged(request, need)))
        raise
    recording.note(event(_judged(request, need)))
    return answer


async def as_its_own_or_administered(
    request: Request, check: Awaitable[None], work: Callable[[], Awaitable[Any]]
) -> None:
    """Do the work for a caller whom ``check`` does not refuse. One that may alter the cluster is not held to it, and then it is
    administration: another's transaction is aborted, another's member removed. Raises as both."""
    try:
        await check
    except RequestRefused:
        if not may_alter_cluster(request):
            raise
        await administered(request, Need("Alter", "cluster"), work, {})
    else:
        await work()


def note_denials(request: Request, parts: Iterable[object]) -> None:
    """Record the rights that were missing for parts of an answer."""
    gateway = gateway_of(request)
    if gateway.recording is not None:
        for event in denials_of(request.scope, parts, gateway.clock.now_ms()):
            gateway.recording.note(event)


def _judged(request: Request, need: Need) -> Right:
    """The right that was judged, by the path or by the body."""
    found: Right = request.scope.get(JUDGED, (need.operation, need.resource_type, None))
    return _by_path(request, need) or found


def _named_ahead(request: Request, need: Need, values: Mapping[str, Any]) -> Right:
    """As ``_judged``, before the endpoint has judged: a body says what it creates by its ``name``."""
    names = (getattr(value, "name", None) for value in values.values() if value is not request)
    return _by_path(request, need) or (need.operation, need.resource_type, next(filter(None, names), None))


def _by_path(request: Request, need: Need) -> Right | None:
    if need.path is not None:
        return need.operation, need.resource_type, path_text(request, need.path)
    return (need.operation, need.resource_type, CLUSTER) if need.is_judged_ahead else None
