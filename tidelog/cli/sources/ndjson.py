"""NDJSON records, sent unchanged: the gateway validates them, and its errors get the input's line numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog import limits
from tidelog.bodies.encode import NDJSON
from tidelog.calls.produce import produce as produce_request
from tidelog.calls.topics import created_on_first_use
from tidelog.cli.sources.lines import Lines
from tidelog.cli.sources.places import name_places
from tidelog.cli.sources.sending import Destination
from tidelog.cli.sources.tally import Tally
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.deadline import Deadline
from tidelog.errors import GatewayError, UnknownTopic
from tidelog.http.transport import Transport


def send_ndjson(tally: Tally, groups: Iterable[Lines], destination: Destination, interrupts: Interrupts) -> None:
    """Send one request after another. Raises a request's error, and ``KeyboardInterrupt`` once its answer has come."""
    transport = Transport(destination.url, token_file=destination.token_file)
    try:
        for group in groups:
            for part in _parts(group):
                with interrupts.held():
                    _send(transport, tally, part, destination)
    finally:
        transport.close()


def _send(
    transport: Transport, tally: Tally, part: Lines, destination: Destination, *, may_create: bool = True
) -> None:
    count = sum(1 for line in part.lines if line.strip())
    try:
        stored = produce_request(
            transport,
            tally.topic,
            b"\n".join(part.lines),
            NDJSON,
            deadline=Deadline(destination.timeout_ms),
            partition=destination.partition,
            compression=destination.compression,
        )
    except GatewayError as error:
        deadline = Deadline(destination.timeout_ms)
        if may_create and isinstance(error, UnknownTopic) and created_on_first_use(transport, tally.topic, deadline):
            _send(transport, tally, part, destination, may_create=False)
            return
        tally.fail(error, name_places(error, part.place) or part.place(0), count)
        raise
    except KeyboardInterrupt:
        tally.lose(count)
        raise
    tally.store(stored.result, part.place(len(part.lines) - 1))


def _parts(group: Lines) -> Iterator[Lines]:
    """Yield the lines in parts of one request each."""
    start, size_bytes = 0, 0
    for index, line in enumerate(group.lines):
        if index > start and size_bytes + len(line) >= limits.REQUEST_TARGET_BYTES:
            yield Lines(path=group.path, first=group.first + start, lines=group.lines[start:index])
            start, size_bytes = index, 0
        size_bytes += len(line) + 1
    yield Lines(path=group.path, first=group.first + start, lines=group.lines[start:])
