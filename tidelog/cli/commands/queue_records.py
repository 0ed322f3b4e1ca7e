"""``tidelog queue receive`` and ``tidelog queue settle``: records of a queue, received and settled by hand."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Literal

import msgspec
import typer

from log_format.errors import DECODE_ERRORS, TidelogError
from log_format.words import counted
from tidelog import limits
from tidelog.bodies.json_record import as_json_record
from tidelog.calls.queues import QueueCalls, ReceivedRecord, SettledResult, Settlement
from tidelog.cli.sinks.record_text import visible
from tidelog.cli.terminal.admin_call import AdminCall
from tidelog.cli.terminal.console import CommandFailed, note, print_json, reporting
from tidelog.cli.terminal.durations import in_milliseconds
from tidelog.cli.terminal.names import QueueArgument
from tidelog.deadline import Deadline
from tidelog.http.transport import Transport

_BYTES_MAX = 8 * 1024 * 1024


def receive(
    queue: QueueArgument,
    *,
    max_: Annotated[int, typer.Option("--max", "-n", min=1, help="Maximum number of records.")] = 10,
    wait_ms: Annotated[
        int,
        typer.Option(
            "--wait-ms",
            metavar="MS",
            parser=in_milliseconds(least=0, most=60_000),
            help="How long to wait for the first record.",
        ),
    ] = 0,
    lock_ms: Annotated[
        int | None,
        typer.Option(
            "--lock-ms",
            metavar="MS",
            parser=in_milliseconds(least=0),
            help="How long the records are locked. Default: the queue's setting.",
        ),
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Accept the records once they are written.")] = False,
    call: AdminCall,
) -> None:
    """Receive records of a queue, and write them. They are locked until they are settled or the lock expires.

    With --json each is a line that 'settle' reads.

    \b
    Examples:
      tidelog queue receive work --max 1
      tidelog queue receive work --max 5 --json | tidelog queue settle work accept
      tidelog queue receive work --wait-ms 500 --lock-ms 5000 --accept --json
    """
    with reporting(as_json=call.as_json), _calls(queue, call) as calls:
        deadline = Deadline(call.timeout * 1000)
        if lock_ms is None:
            lock_ms = calls.describe(deadline).lock_ms
        records = calls.receive(
            records_max=max_, bytes_max=_BYTES_MAX, wait_ms=wait_ms, lock_ms=lock_ms, client_id=None, deadline=deadline
        )
        with _given_back_unwritten(calls, records, deadline) as unwritten:
            while unwritten:
                _write(unwritten[0], as_json=call.as_json)
                unwritten.popleft()
            sys.stdout.flush()
        if accept and records:
            wanted = [_settlement(_as_json(record), "accept") for record in records]
            _tell(wanted, calls.settle(wanted, deadline), as_json=call.as_json, quiet=True)
        elif not call.as_json:
            received = counted(len(records), "record")
            note(f"{received}, locked for {lock_ms:,} ms." if records else "No records are available.")


def settle(
    queue: QueueArgument,
    action: Annotated[
        Literal["accept", "release", "reject", "renew"], typer.Argument(help="What to do with the records.")
    ],
    *,
    delay_ms: Annotated[
        int | None,
        typer.Option(
            "--delay-ms", metavar="MS", parser=in_milliseconds(least=0), help="release: delay before the next delivery."
        ),
    ] = None,
    lock_ms: Annotated[
        int | None,
        typer.Option(
            "--lock-ms",
            metavar="MS",
            parser=in_milliseconds(least=1),
            help="renew: how long the records stay locked from now.",
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="reject: the reason, stored in a header of the dead letter.")] = "",
    call: AdminCall,
) -> None:
    """Settle the records on standard input, one per line, as written by receive --json.

    \b
    Examples:
      tidelog queue receive work --max 1 --json | tidelog queue settle work reject --reason 'not an order'
      tidelog queue receive work --max 1 --json | tidelog queue settle work release --delay-ms 0 --json
    """
    with reporting(as_json=call.as_json), _calls(queue, call) as calls:
        wanted = [_settlement(_read(line), action) for line in sys.stdin if line.strip()]
        given = {
            "delay_ms": -1 if delay_ms is None else delay_ms,
            "lock_ms": -1 if lock_ms is None else lock_ms,
            "reason": reason,
        }
        wanted = [msgspec.structs.replace(one, **given) for one in wanted]
        results: list[SettledResult] = []
        for first in range(0, len(wanted), limits.SETTLEMENTS_MAX):
            results += calls.settle(wanted[first : first + limits.SETTLEMENTS_MAX], Deadline(call.timeout * 1000))
        _tell(wanted, results, as_json=call.as_json)


@contextmanager
def _given_back_unwritten(
    calls: QueueCalls, records: Iterable[ReceivedRecord], deadline: Deadline
) -> Iterator[deque[ReceivedRecord]]:
    """Release records that could not be written, uncounted, since they were never delivered."""
    unwritten = deque(records)
    try:
        yield unwritten
    except BaseException:
        back = [_settlement(_as_json(record), "release") for record in unwritten]
        with suppress(TidelogError):  # otherwise their locks expire
            if back:
                calls.settle([msgspec.structs.replace(one, begun=False) for one in back], deadline)
        raise


def _write(record: ReceivedRecord, *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(record))
        return
    place = f"{record.topic}/{record.partition}@{record.offset}"
    typer.echo(f"{place}  delivery {record.delivery_count}  {visible(record.stored().value or b'')}")


@contextmanager
def _calls(queue: str, call: AdminCall) -> Iterator[QueueCalls]:
    transport = Transport(call.url, token_file=call.token_file)
    try:
        yield QueueCalls(transport, queue)
    finally:
        transport.close()


def _as_json(record: ReceivedRecord) -> dict[str, Any]:
    return {
        **as_json_record(record.stored()),
        "topic": record.topic,
        "delivery_count": record.delivery_count,
        "lease": record.lease,
        "locked_until_ms": record.locked_until_ms,
    }


def _read(line: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except DECODE_ERRORS as error:
        raise ValueError(f"a line of standard input is not JSON: {error}") from None


def _settlement(record: Any, action: str) -> Settlement:
    try:
        place = {name: record[name] for name in ("topic", "partition", "lease")}
        offset = record["offset"]
    except (KeyError, TypeError):
        raise ValueError(
            "a line of standard input lacks topic, partition, offset or lease: 'tidelog queue receive --json' writes such lines"
        ) from None
    return Settlement(**place, action=action, first_offset=offset, last_offset=offset)


def _tell(
    wanted: list[Settlement],
    results: list[SettledResult] | tuple[SettledResult, ...],
    *,
    as_json: bool,
    quiet: bool = False,
) -> None:
    """Report the results. Raises ``CommandFailed`` if a record is not settled."""
    shown = [
        {"topic": one.topic, "partition": one.partition, "offset": one.first_offset, "settled": result.settled}
        | ({} if result.error_code is None else {"error_code": result.error_code})
        for one, result in zip(wanted, results, strict=True)
    ]
    if as_json and not quiet:
        print_json({"results": shown})
    left = [one for one in shown if not one["settled"]]
    if left:
        places = ", ".join(f"{one['topic']}/{one['partition']}@{one['offset']}" for one in left[:20])
        raise CommandFailed(
            f"{len(left)} of {counted(len(shown), 'record')} not settled, since their locks have expired: {places}"
        )
    if not as_json:
        note(f"{counted(len(shown), 'record')} settled.")
