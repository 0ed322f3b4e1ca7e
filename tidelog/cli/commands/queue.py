"""``tidelog queue …``: queues, and records received and settled by hand."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Literal

import msgspec
import typer

from log_format.errors import TidelogError
from tidelog import limits
from tidelog.bodies.json_record import as_json_record
from tidelog.calls.queues import QueueCalls, ReceivedRecord, SettledResult, Settlement
from tidelog.cli.sinks.record_text import visible
from tidelog.cli.terminal.admin_call import AdminCall, YesOption
from tidelog.cli.terminal.console import CommandFailed, note, output, print_json, reporting
from tidelog.cli.terminal.durations import in_milliseconds
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.names import QueueArgument, TopicsArgument, complete_topics
from tidelog.cli.terminal.tables import counted, table, time_text
from tidelog.cli.terminal.units import duration_ms
from tidelog.cli.terminal.wanted import FilterOption, OnlyKeyOption, filter_of
from tidelog.cli.terminal.where import milliseconds
from tidelog.deadline import Deadline
from tidelog.http.transport import Transport
from tidelog.types.queue import Queue

app = Commands(help="Create, list, describe and delete queues; receive, settle and redrive their records.")

NameArgument = Annotated[str, typer.Argument(help="The queue's name.")]
_BYTES_MAX = 8 * 1024 * 1024
_PAUSE_MS = in_milliseconds(least=0)


@app.command()
def create(
    queue: NameArgument,
    topics: TopicsArgument,
    *,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where a new queue starts: latest, earliest, a duration before now (1h), a time or @milliseconds.",
        ),
    ] = None,
    lock_ms: Annotated[
        int | None,
        typer.Option(
            "--lock-ms",
            metavar="MS",
            parser=in_milliseconds(least=0),
            help="How long a received record is locked. Default: 30s.",
        ),
    ] = None,
    max_deliveries: Annotated[
        int | None,
        typer.Option("--max-deliveries", help="After so many deliveries a record becomes a dead letter. Default: 5."),
    ] = None,
    dead_letter_topic: Annotated[
        str | None,
        typer.Option(
            "--dead-letter-topic",
            help="The topic for dead letters. Default: they are dropped.",
            autocompletion=complete_topics,
        ),
    ] = None,
    backoff_ms: Annotated[
        str,
        typer.Option(
            "--backoff-ms", metavar="MS,…", help="Delays before the second delivery, the third, …, such as 1s,10s."
        ),
    ] = "",
    max_in_flight: Annotated[
        int | None, typer.Option("--max-in-flight", help="Maximum number of locked records. Default: 2000.")
    ] = None,
    order: Annotated[
        Literal["none", "key"], typer.Option(help="key: deliver one record of a key at a time, in order.")
    ] = "none",
    expired: Annotated[
        Literal["drop", "dead_letter"],
        typer.Option(help="What to do with records that expire before they are accepted."),
    ] = "drop",
    filter_: FilterOption = None,
    key: OnlyKeyOption = None,
    call: AdminCall,
) -> None:
    """Create a queue over topics, or replace all settings of the queue of this name.

    \b
    Examples:
      tidelog queue create work orders --start earliest
      tidelog queue create work orders clicks --lock-ms 1m --max-deliveries 3 --dead-letter-topic scratch
      tidelog queue create work orders --order key --backoff-ms 1000,10000 --filter type=refund --json
    """
    with call.admin() as admin:
        made = admin.create_queue(
            queue,
            topics,
            start=_start(start),
            lock_ms=lock_ms,
            max_deliveries=max_deliveries,
            dead_letter_topic=dead_letter_topic,
            backoff_ms=[_PAUSE_MS(text) for text in backoff_ms.split(",") if text],
            max_in_flight=max_in_flight,
            order=order,
            expired=expired,
            filter=filter_of(filter_, key),
        )
        call.tell(made, f"Queue {made.queue} delivers the records of {', '.join(made.topics)}.")


@app.command("list")
def list_(call: AdminCall) -> None:
    """List the queues.

    \b
    Examples:
      tidelog queue list
      tidelog queue list --json
    """
    with call.admin() as admin:
        call.show_list(
            {"queues": admin.list_queues()},
            table("queue", "topics", "dead letters"),
            lambda queue: (queue.queue, ", ".join(queue.topics), queue.dead_letter_topic or "dropped"),
            none="There are no queues.",
        )


@app.command()
def describe(queue: QueueArgument, call: AdminCall) -> None:
    """Show a queue: its settings, and its progress in each partition.

    \b
    Examples:
      tidelog queue describe work
      tidelog queue describe work --json
    """
    with call.admin() as admin:
        described = admin.describe_queue(queue)
        print_json(described) if call.as_json else _show(described)


@app.command()
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
            counted = f"{len(records)} {'record' if len(records) == 1 else 'records'}"
            note(f"{counted}, locked for {lock_ms:,} ms." if records else "No records are available.")


@app.command()
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


@app.command()
def redrive(
    queue: QueueArgument,
    *,
    to: Annotated[
        str | None,
        typer.Option(help="The topic to produce to. Default: each record's own topic.", autocompletion=complete_topics),
    ] = None,
    max_: Annotated[int | None, typer.Option("--max", "-n", min=1, help="Maximum number of dead letters.")] = None,
    unproved: Annotated[Literal["stop", "skip", "produce"] | None, typer.Option(help="What has no proof.")] = None,
    call: AdminCall,
) -> None:
    """Produce a queue's dead letters again, each once.

    \b
    Examples:
      tidelog queue redrive work
      tidelog queue redrive work --to orders --max 100 --json
      tidelog queue redrive work --unproved skip
    """
    with call.admin() as admin:
        count = admin.redrive_queue(queue, to_topic=to, max_records=max_, unproved=unproved)
        call.tell({"redriven": count}, f"{counted(count, 'dead letter')} redriven.")


@app.command()
def delete(
    queue: QueueArgument,
    *,
    yes: YesOption = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if the queue does not exist.")] = False,
    call: AdminCall,
) -> None:
    """Delete a queue; its topics are unchanged. Asks for confirmation on a terminal.

    \b
    Examples:
      tidelog queue delete work --yes
    """
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete queue {queue} and its record of settlements?", abort=True, err=True)
    with call.admin() as admin:
        admin.delete_queue(queue, missing_ok=if_exists)
        call.tell({"deleted": queue}, f"Queue {queue} is deleted.")


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


def _start(text: str | None) -> str | int | None:
    if text in (None, "latest", "earliest"):
        return text
    assert text is not None
    if text.startswith("@") and text[1:].isdecimal():
        return int(text[1:])
    span_ms = duration_ms(text)
    if span_ms is not None:
        return max(0, time.time_ns() // 1_000_000 - span_ms)
    try:
        return milliseconds(text)
    except ValueError:
        raise ValueError(
            f"--start {text!r} is not latest, earliest, a duration (1h), a time or @milliseconds"
        ) from None


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
    except msgspec.DecodeError as error:
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
        note(f"{len(shown):,} {'record is' if len(shown) == 1 else 'records are'} settled.")


def _show(queue: Queue) -> None:
    console = output()
    shown = {
        "queue": queue.queue,
        "topics": ", ".join(queue.topics),
        "lock": f"{queue.lock_ms:,} ms",
        "deliveries": f"at most {queue.max_deliveries}, delays {', '.join(map(str, queue.backoff_ms)) or 'none'} ms",
        "dead letters": queue.dead_letter_topic or "dropped",
        "order": queue.order,
    }
    for name, value in shown.items():
        console.print(f"{name:<13} {value}", markup=False)
    console.print()
    partitions = table("partition", numbers=["settled before", "in flight", "delayed", "lag"])
    for each in queue.partitions:
        counts = (each.start_offset, each.in_flight, each.delayed, each.lag)
        partitions.add_row(f"{each.topic}/{each.partition}", *(f"{count:,}" for count in counts))
    console.print(partitions)
    if not queue.dropped.records:
        return
    console.print()
    console.print(
        f"{counted(queue.dropped.records, 'record')} dropped since {time_text(queue.dropped.since)}:", markup=False
    )
    lost = table("partition", "offsets", "when", "why", numbers=["deliveries"])
    for one in queue.dropped.newest:
        offsets = (
            f"{one.first_offset}" if one.first_offset == one.last_offset else f"{one.first_offset} to {one.last_offset}"
        )
        lost.add_row(f"{one.topic}/{one.partition}", offsets, time_text(one.at), one.reason, f"{one.deliveries:,}")
    console.print(lost)
    if queue.dead_letter_topic is None:
        note("A dead letter topic would keep such records: see 'tidelog queue create --help'.")
