"""The destination of requests: a topic whose gateways recognize a request by producer id, epoch and sequence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, Unpack

from log_format.errors import ErrorCode
from log_format.limits import RECORD_BYTES_DEFAULT
from tidelog.bodies.encode import ARROW, Compression
from tidelog.calls import produce
from tidelog.calls.producers import ProducerIdentity, Stamp, issue_producer
from tidelog.calls.topics import describe_topic
from tidelog.collect import limits
from tidelog.collect.batch import TopicForm
from tidelog.collect.journal import Journal, Level
from tidelog.deadline import Deadline
from tidelog.errors import ClientClosed, GatewayError
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport

_T = TypeVar("_T")


class ProducerLost(Exception):
    """No gateway accepts this producer's sequence any more. ``in_doubt``: an earlier attempt may have stored the request."""

    def __init__(self, reason: str, *, in_doubt: bool) -> None:
        super().__init__(reason)
        self.in_doubt = in_doubt


class RecordsTooLarge(Exception):
    """The topic's record limit, or the gateway's request limit, is lower than known before. Nothing was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Result of a request that is in the topic. ``duplicate``: it was there already."""

    record_count: int
    duplicate: bool


class Sink(Protocol):
    """Interface of a topic to send to."""

    def topic_form(self) -> TopicForm:
        """Return the topic's current form."""

    def open_producer(self) -> ProducerIdentity:
        """Return a producer id that no other client has."""

    def store(self, body: bytes, producer: ProducerIdentity, sequence: int, *, in_doubt: bool) -> Stored:
        """Store a request once, with as many attempts as needed; return when it is in the topic.

        Raises ``ProducerLost``, ``RecordsTooLarge``, and ``GatewayError`` for problems that only an operator can fix.
        """


_LOST: Final = (ErrorCode.UNKNOWN_PRODUCER, ErrorCode.FENCED_PRODUCER, ErrorCode.SEQUENCE_OUT_OF_ORDER)
_TOO_LARGE: Final = (ErrorCode.RECORD_TOO_LARGE, ErrorCode.REQUEST_TOO_LARGE)


class GatewaySink:
    """A topic behind gateways, retried until ``stop``."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None,
        topic: str,
        journal: Journal,
        *,
        compression: Compression | None = None,
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        self._topic = topic
        self._journal = journal
        self._compression = compression
        self._transport = Transport(bootstrap_servers, **connection)
        self._stopped = threading.Event()
        self.waits = threading.Event()
        """Set while no gateway accepts requests."""

    def topic_form(self) -> TopicForm:
        """Return the topic's form. Raises ``GatewayError`` if the topic does not exist, ``ClientClosed`` after ``stop``."""
        topic = self._until_done(lambda deadline: describe_topic(self._transport, self._topic, deadline, patient=True))
        return TopicForm(
            partition_count=topic.partition_count,
            record_bytes_max=int(topic.config.get("max.message.bytes", RECORD_BYTES_DEFAULT)),
        )

    def open_producer(self) -> ProducerIdentity:
        """Return a new producer id. Raises ``GatewayError`` if the gateway has no idempotent producers, ``ClientClosed`` after
        ``stop``."""
        return self._until_done(lambda deadline: issue_producer(self._transport, deadline))

    def store(self, body: bytes, producer: ProducerIdentity, sequence: int, *, in_doubt: bool) -> Stored:
        """Store a request, as ``Sink.store``. Raises ``ClientClosed`` after ``stop``."""

        def append(deadline: Deadline) -> produce.Stored:
            return produce.produce(
                self._transport,
                self._topic,
                body,
                ARROW,
                deadline=deadline,
                compression=self._compression,
                stamp=Stamp(producer, sequence),
                patient=True,
            )

        try:
            stored = self._until_done(append, is_final=lambda error: error.code in _LOST, in_doubt=in_doubt)
        except GatewayError as error:
            if error.code in _LOST:
                raise ProducerLost(str(error.detail), in_doubt=error.after_doubt) from error
            if error.code in _TOO_LARGE:
                raise RecordsTooLarge(str(error.detail)) from error
            raise
        return Stored(record_count=stored.result.count, duplicate=stored.duplicate)

    def stop(self, *, abort: bool) -> None:
        """Make no further attempt; with ``abort`` also end the one in flight."""
        self._stopped.set()
        self._transport.close(abort=abort)

    def _until_done(
        self,
        call: Callable[[Deadline], _T],
        *,
        is_final: Callable[[GatewayError], bool] = lambda _error: False,
        in_doubt: bool = False,
    ) -> _T:
        """Return the result of ``call``, retried round after round until the agent stops.

        ``in_doubt``: an earlier process may have made the same request.
        """
        while True:
            try:
                result = call(Deadline(limits.ROUND_MS if self.waits.is_set() else limits.FIRST_ROUND_MS))
            except GatewayError as error:
                error.after_doubt = error.after_doubt or in_doubt
                if self._stopped.is_set():
                    raise ClientClosed("the agent was stopped") from error
                if is_final(error) or not (error.retryable or error.may_have_happened):
                    raise
                in_doubt = in_doubt or error.may_have_happened
                if not self.waits.is_set():
                    self.waits.set()
                    self._journal.report(Level.WARNING, "No gateway accepts requests, retrying", reason=error.detail)
                if not error.retryable:
                    self._stopped.wait(limits.SCAN_INTERVAL_S)
            else:
                self.waits.clear()
                return result
