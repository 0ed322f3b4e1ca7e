"""``tidelog verify TOPIC --erased KEY`` or ``--erased-where CONDITION``: whether anything of it is left in the store."""

from __future__ import annotations

from dataclasses import asdict

import typer

from log_format.errors import StoreError
from log_format.words import counted
from tidelog.cli.terminal.console import CommandFailed, output, print_json, reading_a_store
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.visible import visible_text


def verify_what_was_erased(store: str, topic: str | None, key: str | None, where: str | None, *, as_json: bool) -> None:
    """Read the topic's objects, and show what of the key or condition is left; exit code 1 if anything is, or can't be told."""
    if topic is None:
        raise ValueError("--erased and --erased-where need a topic")
    if key is not None and where is not None:
        raise ValueError("give either --erased or --erased-where")
    with reading_a_store():
        from log_format.inspection.erased import verify_erased  # noqa: PLC0415 - needs pyarrow
        from log_format.records.condition import parse_condition  # noqa: PLC0415 - needs pyarrow
        from log_format.stores import open_store  # noqa: PLC0415 - only here the store itself is read
    try:
        named = (key or "").encode() if where is None else parse_condition(where)
        report = verify_erased(open_store(store, must_exist=True), topic, named)
    except StoreError as error:
        raise CommandFailed(f"The store can't be read: {error}") from error
    if as_json:
        print_json({"topic": topic, "ok": report.ok, **asdict(report)})
    else:
        console = output()
        read = counted(report.object_count, "object")
        console.print(f"{read} read, {counted(report.request_count, 'request')} to erase it.")
        for one in report.left:
            console.print(
                f"problem: {one.key} has {counted(one.record_count, 'record')} of it", style="red", markup=False
            )
        for name in report.unread:
            said = f"problem: {visible_text(name)} is older than the request, and was not read"
            console.print(said, style="red", markup=False)
        if report.later_count:
            console.print(f"{counted(report.later_count, 'record')} of it came after the request, and stay.")
        if report.ok:
            console.print("Nothing that was erased is in the store.", style="green", markup=False)
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)
