"""``tidelog backup`` and ``tidelog restore``: copy a log to another store, and back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Annotated

import typer

from log_format.errors import StoreError
from log_format.words import counted
from tidelog.cli.terminal.console import CommandFailed, JsonOption, note, output, print_json, reading_a_store, reporting
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.names import complete_topics
from tidelog.programs import SAFE_PATH, command

TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        help="Only this topic and the schemas, without groups' offsets; repeatable.",
        autocompletion=complete_topics,
    ),
]


def backup(
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="The store to copy to: empty, or left unfinished by an earlier run."),
    ],
    store: Annotated[str, typer.Option(envvar="TIDELOG_STORE", help="The store to copy from: the log's.")],
    topic: TopicOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the log in --store to the store TARGET while gateways write to the log, and check every topic of the copy.

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
    source: Annotated[str, typer.Argument(metavar="BACKUP", help="The backup: the store to copy from.")],
    store: Annotated[str, typer.Option(envvar="TIDELOG_STORE", help="The store to restore into, which must be empty.")],
    *,
    topic: TopicOption = None,
    version: Annotated[
        int | None, typer.Option(min=0, help="Stop at this version of the table; with one --topic.")
    ] = None,
    erasures_of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STORE",
            help="Also erase what requests of this store erase: the original, or a newer backup; repeatable.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the store BACKUP into the empty --store, and check every topic there. Then start gateways on it, not before.

    With --topic and --version a topic is restored as of that version; the source may also be the log itself. What was erased
    since then is erased in the copy, as far as the backup or a store of --erasures-of knows of it: name the original store there,
    or else the newest backup.

    \b
    Examples:
      tidelog restore s3://backup/2026-11-21 --store s3://bucket/restored
      tidelog restore s3://backup/2026-11-21 --store s3://bucket/restored --erasures-of s3://bucket/log
      tidelog restore ./log --store ./restored --topic orders --version 1234
    """
    with reporting(as_json=as_json):
        if version is not None and len(topic or []) != 1:
            raise ValueError("--version needs one --topic: each table counts its own versions")
        _copy(source, store, topic, version, as_json, erasures_of=erasures_of or ())


def _copy(
    source: str,
    target: str,
    topics: list[str] | None,
    version: int | None,
    as_json: bool,
    *,
    erasures_of: Sequence[str] | None = None,
) -> None:
    """Copy, and report. ``erasures_of``: stores whose requests to erase the copy is erased by, beside the source's; None: it is
    not. Raises ``typer.Exit`` if a topic of the copy is damaged."""
    with reading_a_store():
        from log_format.clock import SystemClock  # noqa: PLC0415 - only here the store itself is read
        from log_format.ids import random_id  # noqa: PLC0415
        from log_format.inspection.backup import copy_log  # noqa: PLC0415 - needs pyarrow
        from log_format.inspection.restored_erasures import EraseAgain  # noqa: PLC0415
        from log_format.stores import open_store  # noqa: PLC0415
    damaged = 0
    erase: EraseAgain | None = None
    try:
        opened, into = open_store(source, must_exist=True), open_store(target)
        if erasures_of is not None:
            others = [open_store(each, must_exist=True) for each in erasures_of]
            erase = EraseAgain(others, lambda names: _carry_out_requests(target, names), random_id)
        for each in copy_log(opened, into, SystemClock(), topics=topics, version=version, erase=erase):
            damaged += bool(each.problems)
            if as_json:
                print_json(each)
                continue
            if each.problems:
                note(f"{each.topic}: {'; '.join(each.problems)}")
            elif each.deleted:
                output().print(f"{each.topic}: deleted", markup=False)
            else:
                counts = f"{counted(each.record_count, 'record')} in {counted(each.segment_count, 'segment')}"
                output().print(f"{each.topic}: {counts}", markup=False)
    except StoreError as error:
        raise CommandFailed(f"The copy was interrupted; run the command again to continue it: {error}") from error
    if damaged:
        raise typer.Exit(ExitCode.FAILED)


def _carry_out_requests(store: str, topics: Sequence[str]) -> None:
    """Carry out requests to erase in these topics, in a process of maintenance. Raises ``CommandFailed``."""
    arguments = ["--store", store, "--workers", "local", "--once", "--erase-only"]
    arguments += [argument for name in topics for argument in ("--topic", name)]
    note(f"Erasing what was erased since the backup in {counted(len(topics), 'topic')}.")
    done = subprocess.run(  # noqa: S603
        command("compaction", arguments), env={**os.environ, **SAFE_PATH}, check=False, stdout=subprocess.DEVNULL
    )
    if done.returncode:
        raise CommandFailed("Not everything that was erased is erased in the copy: run the command again to continue.")
