"""``tidelog topic clone``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from log_format.words import counted
from tidelog.cli.commands.topic_settings import ConfigOption, settings_of
from tidelog.cli.terminal.admin_call import AdminCall
from tidelog.cli.terminal.console import note
from tidelog.cli.terminal.names import TopicArgument
from tidelog.cli.terminal.positions import parse_position
from tidelog.types.topic import TopicClone


def clone(
    source: TopicArgument,
    name: Annotated[str, typer.Argument(help="Name of the topic to make.")],
    *,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="PIN|VERSION|TIME",
            help="Clone the table as it was: the name of a pin, a version, a time, or 2h for two hours ago.",
        ),
    ] = None,
    config: ConfigOption = None,
    call: AdminCall,
) -> None:
    """Make a topic with the records of another at the same offsets.

    The store copies the files by itself, or links them in a directory, so a clone there takes no room. Neither topic can change
    the other afterwards. Groups, producers and transactions do not go along; settings do, unless they are given.

    \b
    Examples:
      tidelog topic clone orders orders-test
      tidelog topic clone orders orders-before --at before-migration
      tidelog topic clone orders orders-2026 -c retention.ms=-1 --json
    """
    with call.admin() as admin:

        def tell(clone: TopicClone) -> None:
            if not call.as_json:
                note(f"Copied {clone.copied_files:,} of {counted(clone.files, 'file')}.")

        made = admin.clone_topic(source, name, config=settings_of(config), progress=tell, **_version(at))
        files = counted(made.files, "file")
        call.report(made, f"Topic {made.name} is a clone of {source} at version {made.source_version}: {files}.")


def _version(at: str | None) -> dict[str, Any]:
    """Return which version ``--at`` means: digits are a number, what reads as a time is one, and other words are a pin's name."""
    if at is None:
        return {}
    if at.isdecimal():
        return {"version": int(at)}
    try:
        timestamp_ms = parse_position(at, "--at").timestamp_ms
    except ValueError:
        timestamp_ms = None
    return {"pin": at} if timestamp_ms is None else {"timestamp_ms": timestamp_ms}
