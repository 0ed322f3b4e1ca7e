"""``tidelog topic summary``: the largest, busiest or most unread topics, and the sums of all."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.terminal.admin_call import TableCall
from tidelog.cli.terminal.console import note, print_json
from tidelog.cli.terminal.names import complete_groups
from tidelog.cli.terminal.table_writers import print_tables
from tidelog.cli.terminal.tables import table
from tidelog.types.topic_summary import TopicSummaries, TopicSummary

TOPICS_SHOWN = 20


class Order(StrEnum):
    """What the topics are sorted by."""

    NAME = "name"
    PARTITIONS = "partitions"
    RECORDS = "records"
    SIZE = "size"
    SEGMENTS = "segments"
    RATE = "rate"
    LAG = "lag"


def summary(
    search: Annotated[
        str | None, typer.Argument(metavar="[SEARCH]", help="Only topics whose names contain this, ignoring case.")
    ] = None,
    *,
    sort: Annotated[
        Order, typer.Option(help="Order of the topics: numbers from the largest, names from a.")
    ] = Order.NAME,
    reverse: Annotated[bool, typer.Option("--reverse", "-r", help="Reverse the order.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, max=1_000, help="Number of topics shown.")
    ] = TOPICS_SHOWN,
    skip: Annotated[int, typer.Option(min=0, help="Number of topics to leave out before them.")] = 0,
    unread: Annotated[bool, typer.Option("--unread", help="Only topics that no group reads.")] = False,
    group: Annotated[
        str | None, typer.Option(autocompletion=complete_groups, help="Only topics that this group reads.")
    ] = None,
    call: TableCall,
) -> None:
    """Show topics by size, rate or lag, and the sums of all topics.

    in/s is records a second, between the gateway's last two looks at a topic; - before the second one. lag is that of all groups
    together; - if none has committed.

    \b
    Examples:
      tidelog topic summary
      tidelog topic summary --sort size --limit 5
      tidelog topic summary orders --sort lag --json
      tidelog topic summary --unread
    """
    with call.admin() as admin:
        found = admin.summarize_topics(
            search,
            sort=sort.value,
            descending=(sort is not Order.NAME) != reverse,
            skip=skip,
            limit=limit,
            unread=unread,
            group=group,
        )
        if call.as_json:
            print_json(found)
            return
        rows = table("topic", numbers=["partitions", "records", "bytes", "segments", "in/s", "groups", "lag"])
        for each in found.topics:
            rows.add_row(*_row(each))
        total = table(numbers=["topics", "damaged", "partitions", "records", "bytes", "segments", "in/s"])
        total.add_row(*_sums(found))
        print_tables(rows, total)
        for damaged in found.damaged:
            note(f"Topic {damaged.name} is damaged: {damaged.detail}")
        left = found.total.topics - found.total.looked_at
        if left:
            note(f"The order and the sums leave out {left:,} topics that the gateway is still looking at: ask again.")


def _row(topic: TopicSummary) -> list[str]:
    counts = (topic.partition_count, topic.records, topic.size_bytes, topic.segments)
    return [
        topic.name,
        *(f"{count:,}" for count in counts),
        _or_dash(topic.rate),
        f"{topic.group_count:,}",
        _or_dash(topic.lag),
    ]


def _sums(found: TopicSummaries) -> list[str]:
    total = found.total
    counts = (total.topics, total.damaged, total.partitions, total.records, total.size_bytes, total.segments)
    return [*(f"{count:,}" for count in counts), _or_dash(total.rate)]


def _or_dash(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"
