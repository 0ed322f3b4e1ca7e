"""``tidelog verify``: check a topic or a journal from the objects in the store, without a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from log_format.errors import StoreError
from log_format.words import counted
from tidelog.cli.commands.verify_erased import verify_what_was_erased
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
from tidelog.cli.terminal.names import complete_topics
from tidelog.cli.terminal.table_format import FormatOption, TableFormat, choosing
from tidelog.cli.terminal.table_writers import print_tables
from tidelog.cli.terminal.tables import table
from tidelog.cli.terminal.visible import visible_text

if TYPE_CHECKING:
    from log_format.inspection.journal import JournalReport
    from log_format.inspection.verify import VerifyReport


ErasedOption = Annotated[
    str | None,
    typer.Option("--erased", metavar="KEY", help="Verify that nothing is left of this erased key."),
]
ErasedWhereOption = Annotated[
    str | None,
    typer.Option(
        "--erased-where", metavar="CONDITION", help="Verify that nothing is left of records erased by this condition."
    ),
]


def verify(
    store: Annotated[
        str, typer.Option(envvar="TIDELOG_STORE", help="The log's store: a directory, s3://bucket/prefix, …")
    ],
    topic: Annotated[
        str | None, typer.Argument(help="The topic's name.", autocompletion=complete_topics, show_default=False)
    ] = None,
    journal: Annotated[
        int | None, typer.Option("--journal", min=0, metavar="NUMBER", help="Verify a journal instead of a topic.")
    ] = None,
    erased: ErasedOption = None,
    *,
    erased_where: ErasedWhereOption = None,
    format_: FormatOption = TableFormat.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Read a whole topic, or a journal, from its store and check it.

    Checks that every segment named by a commit exists, with the commit's size, checksums and rows; that offsets have no gaps from
    the log start on, including records that only a journal has, and no duplicates; that the statistics by which other readers
    choose files are right. Objects that no commit names (orphans) are counted, and are not a fault. Exit code 1 if anything
    is wrong.

    With --erased KEY it reads every object of the topic, also those that have left its table, and checks that none has a record
    that was to be erased by that key. --erased-where does the same for a condition.

    \b
    Examples:
      tidelog verify orders --store ./log
      tidelog verify orders --store s3://bucket/prefix --json
      tidelog verify --journal 0 --store ./log
    """
    as_json = as_json or format_ is TableFormat.JSON
    with reporting(as_json=as_json), choosing(TableFormat.TABLE if as_json else format_):
        if (topic is None) == (journal is None):
            raise ValueError("give either a topic or --journal")
        if erased is not None or erased_where is not None:
            verify_what_was_erased(store, topic, erased, erased_where, as_json=as_json)
            return
        with reading_a_store():
            from log_format.inspection.journal import verify_journal  # noqa: PLC0415 - needs pyarrow
            from log_format.inspection.verify import verify_topic  # noqa: PLC0415 - needs pyarrow
            from log_format.stores import open_store  # noqa: PLC0415 - only here the store itself is read
        what = topic if topic is not None else f"journal {journal}"
        with progress(f"verifying {what}", shown=not as_json) as bar:
            task = bar.add_task("segments", total=None)

            def advance(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total)

            opened = open_store(store, must_exist=True)
            try:
                if journal is not None:
                    of_journal = verify_journal(opened, journal, progress=advance)
                    is_ok = of_journal.ok
                elif topic is not None:
                    report = verify_topic(opened, topic, progress=advance)
                    is_ok = report.ok
            except StoreError as error:
                raise CommandFailed(f"The store can't be read: {error}") from error
        if journal is not None:
            _show_journal(of_journal, journal, as_json)
        elif topic is not None:
            _show(report, topic, as_json)
    if not is_ok:
        raise typer.Exit(ExitCode.FAILED)


def _show_journal(report: JournalReport, journal: int, as_json: bool) -> None:
    if as_json:
        print_json({"journal": journal, **asdict(report)})
        return
    console = output()
    console.print(
        f"{counted(report.topic_count, 'topic')}, {counted(report.object_count, 'object')}, "
        f"{counted(report.undrained_count, 'record')} in no topic's table yet, {counted(report.orphan_count, 'orphan')}"
    )
    _conclude(f"journal {journal}", report.problems)


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
    rows = table(numbers=["partition", "log start", "next offset", "records"])
    for partition in partitions:
        rows.add_row(*(f"{number:,}" for number in partition.values()))
    console = output()
    print_tables(rows)
    console.print(
        f"{counted(report.segment_count, 'segment')}, {counted(report.record_count, 'record')}, "
        f"{counted(report.orphan_count, 'orphan')}"
    )
    _conclude(topic, report.problems)


def _conclude(what: str, problems: Sequence[str]) -> None:
    console = output()
    for problem in problems:
        console.print(visible_text(f"problem: {problem}"), style="red", markup=False)
    if problems:
        console.print(f"{what} is damaged: {counted(len(problems), 'problem')}.", style="red", markup=False)
    else:
        console.print(f"{what} is intact: every committed record is there exactly once.", style="green", markup=False)
