"""Requests to any gateway that answers, retried exactly where the API declares that safe.

1. A request that was never sent goes to the next address.
2. An error answer that says ``retryable`` and not ``may_have_happened`` is retried after its ``Retry-After``.
3. After a lost answer, or an error that may have happened, only a ``repeatable`` request is retried: a read, or a write that
   gateways recognize. Any other raises ``OutcomeUnknown``.
4. If no address has ever answered and all certificates are untrusted, that is raised immediately. Later it is retried:
   certificates are renewed.
5. No attempt but the first begins after the deadline, and none outlives it unless the caller is patient. Nor does a change
   begin shortly before the deadline, since it would end in doubt.
6. An address that failed is paused, for twice as long with each consecutive failure. One that accepts requests and answers none
   is given up within seconds (``silence``), and paused for longer.
7. A request whose token was refused is sent once more if the token source has another token by then: a refusal changed nothing.
8. A request above the client's quota waits as long as the gateway says, and continues with the same gateway.
9. When nothing is left but to wait, the transport logs that immediately (info, logger ``tidelog.transport``), and the end of
   the wait.

Thread-safe. Not usable in a forked child, which would share the parent's connections: calls raise ``RuntimeError`` there.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar, Unpack
from urllib.parse import quote, urlencode

import msgspec

from log_format.errors import DECODE_ERRORS, TidelogError
from log_format.version import __version__
from tidelog import limits
from tidelog.arguments import check_connection
from tidelog.deadline import Deadline
from tidelog.errors import (
    ClientClosed,
    GatewayError,
    GatewayUnreachable,
    OutcomeUnknown,
    Throttled,
    Unauthenticated,
    UnexpectedAnswer,
)
from tidelog.http.answer import Answer, AnswerLost, AnswerTooLarge, GatewaySilent, NeverSent, NotTrusted
from tidelog.http.credentials import ConnectionSettings, Credentials, authorization
from tidelog.http.decoders import decode
from tidelog.http.endpoints import Endpoint, Endpoints
from tidelog.http.owners import Owners, RoutingKey
from tidelog.http.problem import error_from_answer
from tidelog.http.silence import SilenceWatch

_T = TypeVar("_T")

_log = logging.getLogger("tidelog.transport")


def target(*names: str | int, action: str = "", **query: str | int | list[str] | None) -> str:
    """Return ``/v1/``, the percent-encoded names, ``:action``, and the members of ``query`` that are not None.

    A list becomes one parameter per value.
    """
    path = "/v1/" + "/".join(quote(str(name), safe="") for name in names)
    given = {name: value for name, value in query.items() if value is not None}
    return path + (f":{action}" if action else "") + (f"?{urlencode(given, doseq=True)}" if given else "")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the API."""

    method: str
    target: str
    body: bytes | None = None
    content_type: str | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    repeatable: bool
    """Whether the request is idempotent, so that it may be retried after a lost answer."""
    reads: bool = False
    """Whether the request changes nothing, so that a lost answer leaves nothing in doubt."""
    is_final: Callable[[GatewayError], bool] = lambda _error: False
    """Function that returns whether an error must be raised although it could be retried."""
    routing_key: RoutingKey | None = None
    """Subject that decides the preferred gateway, which gets the request if it is known and not paused."""
    answer_bytes_max: int = limits.ANSWER_BYTES_MAX
    """Largest answer accepted, raw or decompressed."""
    wait_ms: float = 0
    """Time that the request lets the gateway wait before it answers, in addition to ``request_timeout_ms``."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A successful answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    repeated: bool
    """Whether an earlier attempt of this request may have happened as well."""

    def decode(self, kind: type[_T]) -> _T:
        """Return the JSON body as ``kind``. Raises ``UnexpectedAnswer`` if it is something else."""
        try:
            return decode(self.body, kind)
        except DECODE_ERRORS as error:
            raise self.unexpected(str(error)) from error

    def unexpected(self, what: str) -> UnexpectedAnswer:
        """Return the error for a body that violates the API."""
        error = UnexpectedAnswer(
            f"{self.url} answered {self.status}, but the answer violates the API: {what}", status=self.status
        )
        error.retryable = False
        error.request_id = self.headers.get("x-request-id")
        return error


class Transport:
    """Connection of one client to its gateways. ``bootstrap_servers``: as for ``Producer``; ``connection``:
    ``ConnectionSettings``."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None,
        *,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        accept_encoding: str | None = None,
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        if request_timeout_ms <= 0:
            raise ValueError(f"request_timeout_ms is {request_timeout_ms}, not above 0")
        check_connection(connection)
        self._credentials = Credentials(**connection)
        self._endpoints = Endpoints(bootstrap_servers, self._credentials)
        self._owners = Owners(self._endpoints, zone=self._credentials.zone)
        self._silence = SilenceWatch(self._others)
        self._request_timeout_ms = request_timeout_ms
        self._headers = {"User-Agent": f"tidelog/{__version__}", "Accept-Encoding": accept_encoding or "identity"}
        self._closed = threading.Event()
        self._waits = False
        self._has_answered = False
        self._untrusted: set[str] = set()
        self._process_id = os.getpid()

    @property
    def urls(self) -> tuple[str, ...]:
        """Base URLs of the bootstrap addresses."""
        return self._endpoints.urls

    def ask(self, request: Request, deadline: Deadline, read: Callable[[Reply], _T], *, patient: bool = False) -> _T:
        """Call, and return ``read(reply)``. A repeatable request is retried while ``read`` raises ``UnexpectedAnswer``.

        Raises as ``call``, and the last ``UnexpectedAnswer``.
        """
        garbled: GatewayError | None = None
        while True:
            reply = self.call(request, deadline, patient=patient, doubt=garbled)
            try:
                return read(reply)
            except UnexpectedAnswer as error:
                if not request.repeatable or deadline.near:
                    raise
                garbled = error
            self.pause(min(limits.BACKOFF_FIRST_MS, deadline.remaining_ms()))

    def call(
        self, request: Request, deadline: Deadline, *, patient: bool = False, doubt: GatewayError | None = None
    ) -> Reply:
        """Send ``request`` and return the reply, retrying until ``deadline`` where that is safe.

        Args:
            patient: an attempt begun before the deadline gets its whole ``request_timeout_ms``.
            doubt: error of an earlier attempt that may have happened.

        Raises the ``GatewayError`` of an error answer, ``OutcomeUnknown`` when the answer to a change is lost,
        ``GatewayUnreachable`` when no address accepted the request, ``ClientClosed`` after ``close``.
        """
        self.check_process()
        last: GatewayError | None = None
        renewed = False
        while True:
            endpoint = self._choose(request)
            pause_ms = endpoint.paused_ms()
            # The first attempt is always made: otherwise a call with a short deadline would never ask.
            if last is not None and pause_ms >= deadline.remaining_ms():
                raise self._give_up(request, last, doubt)
            if pause_ms > 0:
                self._log_waiting(last, deadline)
                self.pause(min(pause_ms, deadline.remaining_ms()))
            if self._closed.is_set():
                raise self._closed_error(request, doubt)
            if deadline.near and not request.reads:
                raise self._give_up(
                    request,
                    last or GatewayUnreachable(f"{endpoint.url} failed, and is paused before it is tried again."),
                    doubt,
                )
            token = self._credentials.token()
            outcome = self._try(request, endpoint, math.inf if patient else deadline.remaining_ms(), token)
            if isinstance(outcome, Answer):
                endpoint.recover()
                if self._waits:
                    self._waits = False
                    _log.info("%s answers.", endpoint.url)
                return Reply(
                    status=outcome.status,
                    headers=outcome.headers,
                    body=outcome.body,
                    url=endpoint.url,
                    repeated=doubt is not None,
                )
            last = outcome
            if last.may_have_happened:
                if not request.repeatable:
                    raise last
                doubt = last
            elif isinstance(last, Unauthenticated) and not renewed and self._credentials.renewed(token):
                renewed = True
            elif not last.retryable or request.is_final(last):
                last.after_doubt = doubt is not None
                raise last
            elif isinstance(last, Throttled) and last.quota is not None:
                wait_ms = last.retry_after_ms or limits.BACKOFF_FIRST_MS
                if wait_ms >= deadline.remaining_ms():
                    raise self._give_up(request, last, doubt)
                self._log_waiting(last, deadline)
                self.pause(wait_ms)

    @property
    def is_own_process(self) -> bool:
        """Whether this process created the client, and is no forked child."""
        return os.getpid() == self._process_id

    def check_process(self) -> None:
        """Raise ``RuntimeError`` in a forked child."""
        if os.getpid() != self._process_id:
            raise RuntimeError("this client was created before a fork: create a new one in the child process")

    def pause(self, pause_ms: float) -> None:
        """Wait, or return early after ``close``."""
        self._closed.wait(pause_ms / 1000)

    def close(self, *, abort: bool = False) -> None:
        """Close the connections and end every pause; with ``abort`` also cut connections in use."""
        if os.getpid() != self._process_id:
            return
        self._closed.set()
        self._silence.close()
        self._owners.close(abort=abort)
        self._endpoints.close(abort=abort)

    def _log_waiting(self, last: GatewayError | None, deadline: Deadline) -> None:
        if last is None or self._waits:
            return
        self._waits = True
        left_s = deadline.remaining_ms() / 1000
        how_long = "" if math.isinf(left_s) else f" for up to {left_s:.0f} s"
        _log.info("%s. Retrying%s.", last.detail.rstrip("."), how_long)

    def _others(self, endpoint: Endpoint) -> list[Endpoint]:
        """Return gateways that may be asked instead of ``endpoint``."""
        others = dict.fromkeys([*self._owners.healthy(), *self._endpoints.healthy()])
        return [other for other in others if other is not endpoint][: limits.OWNERS_ASKED_MAX]

    def _choose(self, request: Request) -> Endpoint:
        endpoint = self._owners.endpoint_for(request.routing_key) if request.routing_key is not None else None
        endpoint = endpoint or self._endpoints.choose()
        return endpoint if endpoint.paused_ms() == 0 else self._owners.another() or endpoint

    def _try(
        self, request: Request, endpoint: Endpoint, timeout_ms_max: float, token: str | None
    ) -> Answer | GatewayError:
        request_id = uuid.uuid4().hex
        headers = {**self._headers, "X-Request-Id": request_id, **request.headers, **authorization(token)}
        if request.content_type is not None:
            headers["Content-Type"] = request.content_type
        timeout_ms = max(1.0, min(self._request_timeout_ms + request.wait_ms, timeout_ms_max))
        error: GatewayError
        try:
            answer = endpoint.address.exchange(
                request.method,
                request.target,
                body=request.body,
                headers=headers,
                timeout_ms=timeout_ms,
                answer_bytes_max=request.answer_bytes_max,
                watch=partial(self._silence.begin, endpoint) if request.repeatable else None,
            )
        except NeverSent as failure:
            endpoint.pause()
            self._owners.expire()
            error = GatewayUnreachable(str(failure), urls=list(self.urls))
            error.retryable = not self._is_untrusted_everywhere(endpoint, failure)
            error.__cause__ = failure
        except AnswerTooLarge as failure:
            endpoint.pause()
            # Another gateway would answer the same, so a read need not be retried.
            error = (
                UnexpectedAnswer(str(failure)) if request.reads else OutcomeUnknown(f"The answer was lost: {failure}")
            )
            error.retryable = error.may_have_happened = not request.reads
            error.request_id = request_id
        except AnswerLost as failure:
            endpoint.pause(limits.SILENCE_REST_MS if isinstance(failure, GatewaySilent) else 0)
            self._owners.expire()
            kind = GatewayUnreachable if request.reads else OutcomeUnknown
            error = kind(f"The answer was lost: {failure}", urls=list(self.urls))
            error.__cause__ = failure
            error.request_id = request_id
        else:
            self._has_answered = True
            if answer.status < 300:
                return answer
            request_id = answer.headers.get("x-request-id", request_id)
            error = error_from_answer(answer.status, answer.body, request_id=request_id, url=endpoint.url)
            if request.reads:
                error.may_have_happened = False
            retry_after_ms = _retry_after_ms(answer.headers.get("retry-after"))
            if isinstance(error, Throttled) and error.quota is not None:
                # The client's quota is the same at every gateway, so this one is not paused.
                error.fields.setdefault("retry_after_ms", retry_after_ms)
            elif error.retryable or error.may_have_happened:
                endpoint.pause(retry_after_ms)
        return error

    def _is_untrusted_everywhere(self, endpoint: Endpoint, failure: NeverSent) -> bool:
        """Return whether no address has ever answered and none has a trusted gateway: retrying does not help then."""
        if not isinstance(failure, NotTrusted):
            self._untrusted.discard(endpoint.url)
            return False
        self._untrusted.add(endpoint.url)
        return not self._has_answered and self._untrusted.issuperset(self.urls)

    def _closed_error(self, request: Request, doubt: GatewayError | None) -> TidelogError:
        if doubt is None or request.reads:
            return ClientClosed("the client was closed")
        error = OutcomeUnknown(f"{doubt.detail} Then the client was closed.")
        error.__cause__ = doubt
        error.request_id = doubt.request_id
        return error

    def _give_up(self, request: Request, last: GatewayError, doubt: GatewayError | None) -> GatewayError:
        if doubt is None or request.reads or last is doubt:
            return last
        error = OutcomeUnknown(f"{doubt.detail} Retries did not find out more: {last.detail}")
        error.__cause__ = last
        error.request_id = doubt.request_id
        return error


def _retry_after_ms(text: str | None) -> float:
    """Return ``Retry-After`` given in whole seconds, as gateways send it; 0 for a date, as some proxies send."""
    return int(text) * 1000.0 if text is not None and text.isdecimal() else 0.0
