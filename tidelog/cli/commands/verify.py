"""``tidelog verify``: prove a topic from what lies on the store, without a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from log_format.errors import StoreError
from tidelog.cli.terminal.console import (
    CommandFailed,
    JsonOption,
    output,
    print_json,
    progress,
    reading_a_store,
    reporting,
)
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.names import TopicArgument

if TYPE_CHECKING:
    from log_format.inspection.verify import VerifyReport


def verify(
    topic: TopicArgument,
    store: Annotated[
        str, typer.Option(envvar="TIDELOG_STORE", help="Where the log lies: a directory, s3://bucket/prefix, …")
    ],
    as_json: JsonOption = False,
) -> None:
    """Read a whole topic from its store and prove it.

    Every segment that a commit names is there with the size, checksums and rows that the commit says; offsets are dense
    from the log start on; no offset is there twice; the statistics by which other readers choose files are right. Objects
    that no commit names are counted, and are no fault. Exit code 1 when anything is wrong.

    \b
    Examples:
      tidelog verify orders --store ./log
      tidelog verify orders --store s3://bucket/prefix --json
    """
    with reporting(as_json=as_json):
        with reading_a_store():
            from log_format.inspection.verify import verify_topic  # noqa: PLC0415 - needs pyarrow
            from log_format.stores import open_store  # noqa: PLC0415 - only here the store itself is read
        with progress(f"verifying {topic}", shown=not as_json) as bar:
            task = bar.add_task("segments", total=None)
            try:
                report = verify_topic(
                    open_store(store, must_exist=True),
                    topic,
                    progress=lambda done, total: bar.update(task, completed=done, total=total),
                )
            except StoreError as error:
                raise CommandFailed(f"The store can't be read: {error}") from error
        _show(report, topic, as_json)
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)


def _show(report: VerifyReport, topic: str, as_json: bool) -> None:
    partitions = [
        {
            "partition": each.partition,
            "log_start_offset": each.log_start_offset,
            "next_offset": each.next_offset,
            "record_count": each.record_count,
        }
        for each in report.partitions
    ]
    if as_json:
        print_json(
            {
                "topic": topic,
                "ok": report.ok,
                "problems": report.problems,
                "segment_count": report.segment_count,
                "record_count": report.record_count,
                "size_bytes": report.size_bytes,
                "orphan_count": report.orphan_count,
                "partitions": partitions,
            }
        )
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("partition", "log start", "next offset", "records"):
        table.add_column(heading, justify="right")
    for partition in partitions:
        table.add_row(*(f"{number:,}" for number in partition.values()))
    console = output()
    console.print(table)
    console.print(
        f"{report.segment_count:,} segments, {report.record_count:,} records, {report.orphan_count:,} orphans"
    )
    for problem in report.problems:
        console.print(f"problem: {problem}", style="red", markup=False)
    if report.ok:
        console.print(f"{topic} is whole: every record that was committed is there, once.", style="green", markup=False)
    else:
        count = len(report.problems)
        console.print(f"{topic} is damaged: {count:,} problem{'s' if count != 1 else ''}.", style="red", markup=False)
