"""Where requests go: a topic behind gateways that know a request again by its producer id, epoch and sequence."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from log_format.errors import ErrorCode
from log_format.limits import RECORD_BYTES_DEFAULT
from tidelog.bodies.encode import ARROW, JSON, Compression, compress
from tidelog.calls.topic_facts import describe_topic
from tidelog.collect import limits
from tidelog.collect.batch import TopicForm
from tidelog.collect.journal import Journal, Level
from tidelog.collect.state import ProducerIdentity
from tidelog.deadline import Deadline
from tidelog.errors import ClientClosed, GatewayError
from tidelog.http.transport import Reply, Request, Transport, target


class ProducerLost(Exception):
    """No gateway takes this producer's sequence any more. ``in_doubt``: an earlier try may have stored the request."""

    def __init__(self, reason: str, *, in_doubt: bool) -> None:
        super().__init__(reason)
        self.in_doubt = in_doubt


class RecordsTooLarge(Exception):
    """The topic takes smaller records, or the gateway smaller requests, than was thought. Nothing was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A request is in the topic. ``duplicate``: it was already."""

    record_count: int
    duplicate: bool


class Sink(Protocol):
    """A topic."""

    def topic_form(self) -> TopicForm:
        """How the topic is now."""

    def open_producer(self) -> ProducerIdentity:
        """A producer that nobody else has."""

    def store(self, body: bytes, producer: ProducerIdentity, sequence: int, *, in_doubt: bool) -> Stored:
        """Store a request once, however often it is tried; return when it is in the topic.

        Raises ``ProducerLost``, ``RecordsTooLarge``, and what nobody but an operator can mend as ``GatewayError``.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    partition: int
    base_offset: int
    last_offset: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    partitions: tuple[_Place, ...]
    duplicate: bool = False


_LOST: Final = {
    str(code) for code in (ErrorCode.UNKNOWN_PRODUCER, ErrorCode.FENCED_PRODUCER, ErrorCode.SEQUENCE_OUT_OF_ORDER)
}
_TOO_LARGE: Final = {str(code) for code in (ErrorCode.RECORD_TOO_LARGE, ErrorCode.REQUEST_TOO_LARGE)}


class GatewaySink:
    """A topic behind gateways, tried for as long as it takes, until ``stop``."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None,
        topic: str,
        journal: Journal,
        *,
        compression: Compression | None = None,
    ) -> None:
        self._topic = topic
        self._journal = journal
        self._compression = compression
        self._transport = Transport(bootstrap_servers)
        self._stopped = threading.Event()
        self.waits = threading.Event()
        """Set while no gateway takes what is sent."""

    def topic_form(self) -> TopicForm:
        """Raises ``GatewayError`` when the topic does not exist, ``ClientClosed`` after ``stop``."""
        while True:
            try:
                topic = describe_topic(self._transport, self._topic, self._round(), patient=True)
            except GatewayError as error:
                self._again(error)
                continue
            self.waits.clear()
            return TopicForm(
                partition_count=topic.partition_count,
                record_bytes_max=int(topic.config.get("max.message.bytes", RECORD_BYTES_DEFAULT)),
            )

    def open_producer(self) -> ProducerIdentity:
        """Raises ``GatewayError`` when the gateway has no idempotent producers, ``ClientClosed`` after ``stop``."""
        # Made twice, one of the two is never used, and forgotten.
        request = Request(
            method="POST", target=target("producers"), body=b"{}", content_type=JSON, repeatable=True
        )  # fmt: skip
        return self._call(request).decode(ProducerIdentity)

    def store(self, body: bytes, producer: ProducerIdentity, sequence: int, *, in_doubt: bool) -> Stored:
        """As ``Sink`` has it; raises ``ClientClosed`` after ``stop``."""
        sent, headers = compress(body, self._compression)
        request = Request(
            method="POST",
            target=target("topics", self._topic, "records"),
            body=sent,
            content_type=ARROW,
            headers={
                **headers,
                "Tidelog-Producer-Id": producer.producer_id,
                "Tidelog-Producer-Epoch": str(producer.epoch),
                "Tidelog-Producer-Sequence": str(sequence),
            },
            # Each lost answer is to be seen here: whether the request is in doubt decides what a later refusal means.
            repeatable=False,
        )
        while True:
            try:
                reply = self._transport.call(request, self._round(), patient=True)
                answer = reply.decode(_Answer)
            except GatewayError as error:
                if error.code in _LOST:
                    raise ProducerLost(str(error.detail), in_doubt=in_doubt) from error
                if error.code in _TOO_LARGE:
                    raise RecordsTooLarge(str(error.detail)) from error
                in_doubt = in_doubt or error.may_have_happened
                self._again(error)
                continue
            self.waits.clear()
            return Stored(
                record_count=sum(place.count for place in answer.partitions), duplicate=answer.duplicate
            )  # fmt: skip

    def stop(self, *, abort: bool) -> None:
        """Begin no further try; with ``abort`` end the one under way."""
        self._stopped.set()
        self._transport.close(abort=abort)

    def _call(self, request: Request) -> Reply:
        while True:
            try:
                reply = self._transport.call(request, self._round(), patient=True)
            except GatewayError as error:
                self._again(error)
                continue
            self.waits.clear()
            return reply

    def _round(self) -> Deadline:
        return Deadline(limits.ROUND_MS if self.waits.is_set() else limits.FIRST_ROUND_MS)

    def _again(self, error: GatewayError) -> None:
        """Return when another try makes sense, else raise."""
        if self._stopped.is_set():
            raise ClientClosed("the agent was stopped") from error
        if not (error.retryable or error.may_have_happened):
            raise error
        if not self.waits.is_set():
            self.waits.set()
            self._journal.tell(Level.WARNING, "No gateway takes requests, trying on", reason=error.detail)
        if not error.retryable:
            self._stopped.wait(limits.SCAN_INTERVAL_S)
