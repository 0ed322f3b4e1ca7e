"""Conversion of a request's exception to its problem, or to silence if the client has disconnected.

For requests this is the top level of the process: only here may everything be caught. An answer that has begun can't be replaced:
its connection is closed, so that the client sees that the answer is incomplete. A call whose change is committed is never
refused. An error raised after the change is a defect, and the answer is that the outcome is unknown (``gateway.call``).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.call import begin_call
from gateway.http.dispatch import MethodNotAllowed
from gateway.iceberg_problem import iceberg_response, is_of_iceberg
from gateway.problem import as_tidelog_error, problem_response
from gateway.registry_problem import is_of_registry, registry_response
from gateway.sharing_problem import is_of_sharing, sharing_response
from log_format.errors import ErrorCode, OutcomeUnknown, StoreUnavailable, TidelogError

_log = logging.getLogger("gateway.problems")


class ProblemMiddleware:
    """Middleware around everything that may raise."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        begun = False
        call = begin_call(scope.get("client"))

        def watching_send(message: Message) -> Awaitable[None]:
            nonlocal begun
            begun = True
            return send(message)

        try:
            await self._app(scope, receive, watching_send)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - top level of a request
            if call.is_committed and not as_tidelog_error(error).may_have_happened:
                error = _late_refusal(error)
            _log_error(error, begun=begun)
            if begun:
                return
            headers = {"allow": ", ".join(error.allowed)} if isinstance(error, MethodNotAllowed) else None
            response = _answer_for(scope)(error, scope.get("tidelog.request_id"), headers=headers)
            await response(scope, receive, send)
            # Its frames hold the request's records, and often the error itself: they would stay until a garbage collection.
            error.__traceback__ = None
        finally:
            call.end()


def _answer_for(scope: Scope) -> Callable[..., Response]:
    """Return the form that errors have below a path: another's API has its own."""
    path = scope["path"]
    if is_of_registry(path):
        return registry_response
    if is_of_iceberg(path):
        return partial(iceberg_response, path=path, method=scope["method"])
    return sharing_response if is_of_sharing(path) else problem_response


def _late_refusal(error: Exception) -> OutcomeUnknown:
    late = OutcomeUnknown("The change was made, but the gateway failed to report its result.")
    late.__cause__ = error
    return late


def _log_error(error: Exception, *, begun: bool) -> None:
    known = as_tidelog_error(error)
    if known is not error and known.code is ErrorCode.INTERNAL:
        _log.error("unforeseen error", exc_info=error)
    elif isinstance(error, StoreUnavailable):
        _log.warning("the store failed: %s", error)
    elif isinstance(error, TidelogError) and error.status in (500, 504):
        _log.error("%s: %s", error.code, error.detail, exc_info=error.__cause__)
    if begun:
        _log.warning("an answer ended early: %s: %s", known.code, known.detail)
