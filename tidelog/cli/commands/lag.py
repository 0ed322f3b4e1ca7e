"""``tidelog lag``: a consumer group's lag, once or periodically."""

from __future__ import annotations

import contextlib
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from tidelog.admin import Admin
from tidelog.cli.terminal.admin_call import AdminCall
from tidelog.cli.terminal.console import output, print_json
from tidelog.cli.terminal.durations import in_seconds
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.cli.terminal.names import GroupArgument
from tidelog.cli.terminal.tables import table
from tidelog.types.group import GroupLag


def lag(
    group: GroupArgument,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh the result until Ctrl-C.")] = False,
    every: Annotated[
        float,
        typer.Option(
            "--every",
            metavar="DURATION",
            parser=in_seconds(least=0.1),
            help="Interval of --watch.",
        ),
    ] = 2.0,
    call: AdminCall,
) -> None:
    """Show a group's lag: in records, and as the age of the first uncommitted record.

    On a terminal --watch redraws the table; elsewhere, and with --json, it writes one result after another.

    \b
    Examples:
      tidelog lag billing
      tidelog lag billing --json
      tidelog lag billing --watch --every 500ms
    """
    with call.admin() as admin:
        if not watch:
            _show(admin.group_lag(group), call.as_json)
            return
        with Interrupts().caught():
            _watch(admin, group, every, as_json=call.as_json)


def lag_table(found: GroupLag) -> Table:
    """Return a table with a row for each partition, and one for the total."""
    rows = table("topic", numbers=["partition", "committed", "high watermark", "lag", "lag (s)"])
    for topic in found.topics:
        for each in topic.partitions:
            seconds = "-" if each.lag_ms is None else f"{each.lag_ms / 1000:,.1f}"
            numbers = (each.partition, each.committed_offset, each.high_watermark, each.lag)
            rows.add_row(topic.topic, *("-" if number is None else f"{number:,}" for number in numbers), seconds)
    rows.add_row("total", "", "", "", f"{found.total:,}", "")
    return rows


def _show(found: GroupLag, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        output().print(lag_table(found))


def _watch(admin: Admin, group: str, every_s: float, *, as_json: bool) -> None:
    console = Console()
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else None
    with live or contextlib.nullcontext():
        while True:
            found = admin.group_lag(group)
            if live is not None:
                live.update(lag_table(found), refresh=True)
            else:
                _show(found, as_json)
                output().file.flush()
            time.sleep(every_s)
