"""``tidelog lag``: a consumer group's lag, or the backlog of all groups, once or periodically."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.table import Table

from tidelog.admin import Admin
from tidelog.cli.terminal import watching
from tidelog.cli.terminal.admin_call import TableCall
from tidelog.cli.terminal.backlogs import Look, backlog_table, backlogs, look_at_all
from tidelog.cli.terminal.durations import in_seconds
from tidelog.cli.terminal.names import complete_groups
from tidelog.cli.terminal.tables import table
from tidelog.cli.terminal.units import duration_text
from tidelog.cli.terminal.watching import Shown
from tidelog.types.group import GroupLag


def lag(
    group: Annotated[
        str | None, typer.Argument(help="The group's name. Default: all groups.", autocompletion=complete_groups)
    ] = None,
    *,
    over: Annotated[
        float | None,
        typer.Option(
            "--over",
            metavar="DURATION",
            parser=in_seconds(least=0.1, most=3_600),
            help="Without a group: look twice, so long apart, for rates and the time until each group has caught up.",
        ),
    ] = None,
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
    call: TableCall,
) -> None:
    """Show a group's lag: in records, and as the age of the first uncommitted record. Without a group: who is behind.

    A partition without a committed offset counts from its log start.
    Of all groups, the one that is farthest behind comes first. --over and --watch add records a second, in and out, and when each
    group will have caught up at these rates. On a terminal --watch redraws the table; elsewhere, and with --json, it writes one
    result after another.

    \b
    Examples:
      tidelog lag
      tidelog lag --over 5s
      tidelog lag billing
      tidelog lag billing --json
      tidelog lag billing --watch --every 500ms
    """
    with call.admin() as admin:
        if group is not None and over is not None:
            raise ValueError("--over is for all groups: leave the group out.")
        look: Callable[[], Shown]
        look = _Overview(admin) if group is None else lambda: _of_group(admin.group_lag(group))
        if over is not None:
            look()
            time.sleep(over)
        if not watch:
            watching.show(look(), as_json=call.as_json)
            return
        watching.watch(look, every, as_json=call.as_json)


class _Overview:
    """Looks at all groups. Each look after the first has the rates since the one before."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._before: dict[str, Look] = {}

    def __call__(self) -> Shown:
        looks = look_at_all(self._admin, time.monotonic())
        found = backlogs(looks, self._before)
        self._before = looks
        return Shown((backlog_table(found),), {"groups": found})


def _of_group(found: GroupLag) -> Shown:
    return Shown((lag_table(found),), found)


def lag_table(found: GroupLag) -> Table:
    """Return a table with a row for each partition, and one for the total."""
    rows = table("topic", numbers=["partition", "committed", "high watermark", "lag", "behind"])
    for topic in found.topics:
        for each in topic.partitions:
            behind = "-" if each.ms_behind is None else duration_text(each.ms_behind)
            numbers = (each.partition, each.committed_offset, each.high_watermark, each.records_behind)
            rows.add_row(topic.topic, *("-" if number is None else f"{number:,}" for number in numbers), behind)
    rows.add_row("total", "", "", "", f"{found.records_behind:,}", "")
    return rows
