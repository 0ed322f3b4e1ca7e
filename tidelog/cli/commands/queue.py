"""``tidelog queue …``: queues."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from log_format.words import counted
from tidelog.cli.commands.queue_records import receive, settle
from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.console import note, output, print_json
from tidelog.cli.terminal.durations import in_milliseconds
from tidelog.cli.terminal.filter_options import FilterOption, OnlyKeyOption, filter_of
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.names import QueueArgument, TopicsArgument, complete_topics
from tidelog.cli.terminal.positions import past_ms
from tidelog.cli.terminal.table_writers import print_tables
from tidelog.cli.terminal.tables import table, time_text
from tidelog.types.queue import Queue

app = Commands(help="Create, list, describe and delete queues; receive, settle and redrive their records.")

NameArgument = Annotated[str, typer.Argument(help="The queue's name.")]
_PAUSE_MS = in_milliseconds(least=0)

StartOption = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="Where a new queue starts: latest, earliest, a duration before now (1h), a time or @milliseconds.",
    ),
]
LockOption = Annotated[
    int | None,
    typer.Option(
        "--lock-ms",
        metavar="MS",
        parser=in_milliseconds(least=0),
        help="How long a received record is locked. Default: 30s.",
    ),
]
DeliveriesOption = Annotated[
    int | None,
    typer.Option("--max-deliveries", help="After so many deliveries a record becomes a dead letter. Default: 5."),
]
DeadLetterOption = Annotated[
    str | None,
    typer.Option(
        "--dead-letter-topic",
        help="The topic for dead letters. Default: they are dropped.",
        autocompletion=complete_topics,
    ),
]
BackoffOption = Annotated[
    str,
    typer.Option(
        "--backoff-ms", metavar="MS,…", help="Delays before the second delivery, the third, …, such as 1s,10s."
    ),
]
InFlightOption = Annotated[
    int | None, typer.Option("--max-in-flight", help="Maximum number of locked records. Default: 2000.")
]
OrderOption = Annotated[
    Literal["none", "key"], typer.Option(help="key: deliver one record of a key at a time, in order.")
]
ExpiredOption = Annotated[
    Literal["drop", "dead_letter"],
    typer.Option(help="What to do with records that expire before they are accepted."),
]


@app.command()
def create(
    queue: NameArgument,
    topics: TopicsArgument,
    *,
    start: StartOption = None,
    lock_ms: LockOption = None,
    max_deliveries: DeliveriesOption = None,
    dead_letter_topic: DeadLetterOption = None,
    backoff_ms: BackoffOption = "",
    max_in_flight: InFlightOption = None,
    order: OrderOption = "none",
    expired: ExpiredOption = "drop",
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
        call.report(made, f"Queue {made.queue} delivers the records of {', '.join(made.topics)}.")


@app.command("list")
def list_(call: TableCall) -> None:
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
def describe(queue: QueueArgument, call: TableCall) -> None:
    """Show a queue: its settings, and its progress in each partition.

    \b
    Examples:
      tidelog queue describe work
      tidelog queue describe work --json
    """
    with call.admin() as admin:
        described = admin.describe_queue(queue)
        print_json(described) if call.as_json else _show(described)


app.command()(receive)
app.command()(settle)


@app.command()
def redrive(
    queue: QueueArgument,
    *,
    to: Annotated[
        str | None,
        typer.Option(help="The topic to produce to. Default: each record's own topic.", autocompletion=complete_topics),
    ] = None,
    max_: Annotated[int | None, typer.Option("--max", "-n", min=1, help="Maximum number of dead letters.")] = None,
    unproved: Annotated[
        Literal["stop", "skip", "produce"] | None,
        typer.Option(help="What to do with a record that claims to be a dead letter of the queue without proof."),
    ] = None,
    call: AdminCall,
) -> None:
    """Produce a queue's dead letters again, each once.

    Dead letters of a typed topic go back to that topic if they fit its schema now.

    \b
    Examples:
      tidelog queue redrive work
      tidelog queue redrive work --to orders --max 100 --json
      tidelog queue redrive work --unproved skip
    """
    with call.admin() as admin:
        count = admin.redrive_queue(queue, to_topic=to, max_records=max_, unproved=unproved)
        call.report({"redriven": count}, f"{counted(count, 'dead letter')} redriven.")


@app.command()
def delete(
    queue: QueueArgument,
    *,
    yes: YesOption = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if the queue does not exist.")] = False,
    call: AdminCall,
) -> None:
    """Delete a queue; its topics are unchanged. Asks for confirmation.

    \b
    Examples:
      tidelog queue delete work --yes
    """
    with call.admin() as admin:
        confirm(f"Delete queue {queue} and its record of settlements?", yes=yes)
        admin.delete_queue(queue, missing_ok=if_exists)
        call.report({"deleted": queue}, f"Queue {queue} is deleted.")


def _start(text: str | None) -> str | int | None:
    if text in (None, "latest", "earliest"):
        return text
    assert text is not None
    try:
        return past_ms(text)
    except ValueError:
        raise ValueError(
            f"--start {text!r} is not latest, earliest, a duration (1h), a time or @milliseconds"
        ) from None


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
    if not queue.dropped.records:
        print_tables(partitions)
        return
    lost = table("partition", "offsets", "when", "why", numbers=["deliveries"])
    for one in queue.dropped.newest:
        offsets = (
            f"{one.first_offset}" if one.first_offset == one.last_offset else f"{one.first_offset} to {one.last_offset}"
        )
        lost.add_row(f"{one.topic}/{one.partition}", offsets, time_text(one.at), one.reason, f"{one.deliveries:,}")
    print_tables(partitions, lost)
    console.print(
        f"{counted(queue.dropped.records, 'record')} dropped since {time_text(queue.dropped.since)}.", markup=False
    )
    if queue.dead_letter_topic is None:
        note("A dead letter topic would keep such records: see 'tidelog queue create --help'.")
