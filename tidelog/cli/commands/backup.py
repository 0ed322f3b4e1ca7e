"""``tidelog backup`` and ``tidelog restore``: copy a log to another store, and back."""

from __future__ import annotations

from typing import Annotated

import typer

from log_format.errors import StoreError
from tidelog.cli.terminal.console import CommandFailed, JsonOption, note, output, print_json, reading_a_store, reporting
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.names import complete_topics

TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        help="Only this topic and the schemas, without groups' offsets; repeatable.",
        autocompletion=complete_topics,
    ),
]


def backup(
    target: Annotated[str, typer.Argument(help="The store to copy to: empty, or left unfinished by an earlier run.")],
    store: Annotated[str, typer.Option(envvar="TIDELOG_STORE", help="The store of the log.")],
    topic: TopicOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a log to another store while gateways write to it, and check every topic of the copy.

    A second run continues an interrupted copy, which can't be restored before it is complete. A target that others wrote to is
    refused. Records acknowledged after the copy of their topic began are not copied, nor are transactions under way. Exit code 1
    when a topic of the copy is damaged: run it again, or verify the source.

    \b
    Examples:
      tidelog backup s3://backup/2026-11-21 --store s3://bucket/log
      tidelog backup ./copy --store ./log --topic orders
    """
    with reporting(as_json=as_json):
        _copy(store, target, topic, None, as_json)


def restore(
    source: Annotated[str, typer.Argument(help="The backup.")],
    store: Annotated[str, typer.Option(envvar="TIDELOG_STORE", help="The store to restore into, which must be empty.")],
    topic: TopicOption = None,
    version: Annotated[
        int | None, typer.Option(min=0, help="Stop at this version of the table; with one --topic.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a backup into an empty store, and check every topic there. Then start gateways on it, not before.

    With --topic and --version a topic is restored as of that version; the source may also be the log itself.

    \b
    Examples:
      tidelog restore s3://backup/2026-11-21 --store s3://bucket/restored
      tidelog restore ./log --store ./restored --topic orders --version 1234
    """
    with reporting(as_json=as_json):
        if version is not None and len(topic or []) != 1:
            raise ValueError("--version needs one --topic: each table counts its own versions")
        _copy(source, store, topic, version, as_json)


def _copy(source: str, target: str, topics: list[str] | None, version: int | None, as_json: bool) -> None:
    """Copy, and report. Raises ``typer.Exit`` if a topic of the copy is damaged."""
    with reading_a_store():
        from log_format.clock import SystemClock  # noqa: PLC0415 - only here the store itself is read
        from log_format.inspection.backup import copy_log  # noqa: PLC0415 - needs pyarrow
        from log_format.stores import open_store  # noqa: PLC0415
    damaged = 0
    try:
        opened, into = open_store(source, must_exist=True), open_store(target)
        for each in copy_log(opened, into, SystemClock(), topics=topics, version=version):
            damaged += bool(each.problems)
            if as_json:
                print_json(each)
                continue
            if each.problems:
                note(f"{each.topic}: {'; '.join(each.problems)}")
            elif each.deleted:
                output().print(f"{each.topic}: deleted", markup=False)
            else:
                counts = f"{each.record_count:,} records in {each.segment_count:,} segments"
                output().print(f"{each.topic}: {counts}", markup=False)
    except StoreError as error:
        raise CommandFailed(f"The copy was interrupted; run the command again to continue it: {error}") from error
    if damaged:
        raise typer.Exit(ExitCode.FAILED)
