"""``tidelog pin …``: versions of a topic's table that stay readable."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.console import note, print_json
from tidelog.cli.terminal.durations import time_ms
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.names import TopicArgument
from tidelog.cli.terminal.positions import past_ms
from tidelog.cli.terminal.table_writers import print_tables
from tidelog.cli.terminal.tables import table, time_text
from tidelog.cli.terminal.units import in_words
from tidelog.types.pin import Pin

app = Commands(help="Pin versions of a topic's table, so that they stay readable.")

PinArgument = Annotated[str, typer.Argument(help="The pin's name.")]


@app.command()
def create(
    topic: TopicArgument,
    name: PinArgument,
    *,
    version: Annotated[int | None, typer.Option(min=0, help="Pin this version of the table.")] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Pin the table of this time: ISO 8601, or a duration before now (1h)."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="WHEN", help="End the pin after 30d, 12h, or at a time. Default: never.")
    ] = None,
    call: AdminCall,
) -> None:
    """Pin a version of a topic's table: by default the present one, with all that was acknowledged before.

    With the name and the version of a pin it gets the new expiry.

    \b
    Examples:
      tidelog pin create orders before-migration --expires 30d
      tidelog pin create orders end-of-year --at 2026-12-31T23:59:59Z
      tidelog pin create orders beginning --version 1 --expires 60d
    """
    expires_ms = None if expires is None else time_ms(expires, "--expires")
    at_ms = None if at is None else past_ms(at)
    with call.admin() as admin:
        pin = admin.create_pin(topic, name, version=version, timestamp_ms=at_ms, expires_ms=expires_ms)
        call.report(pin, f"Version {pin.version} of {topic} is pinned as {pin.name}{_until(pin)}.")


@app.command("list")
def list_(topic: TopicArgument, *, call: TableCall) -> None:
    """List a topic's pins, and the stored bytes that only they hold back.

    \b
    Examples:
      tidelog pin list orders
      tidelog pin list orders --json
    """
    with call.admin() as admin:
        found = admin.list_pins(topic)
        if call.as_json:
            print_json(found)
            return
        if not found.pins:
            note(f"Topic {topic} has no pins.")
            return
        pins = table("pin", "version", "created", "expires", numbers=["holds back"])
        for pin in found.pins:
            ends = "never" if pin.expires_at is None else time_text(pin.expires_at)
            pins.add_row(pin.name, f"{pin.version}", time_text(pin.created_at), ends, bytes_text(pin.held_back_bytes))
        print_tables(pins)
        if len(found.pins) > 1:
            note(f"Together they hold back {bytes_text(found.held_back_bytes)}.")


@app.command()
def delete(topic: TopicArgument, name: PinArgument, *, yes: YesOption = False, call: AdminCall) -> None:
    """Delete a pin. Maintenance then deletes what only its version has. Asks for confirmation.

    \b
    Examples:
      tidelog pin delete orders before-migration --yes
    """
    with call.admin() as admin:
        confirm(f"Delete pin {name} of topic {topic}?", yes=yes)
        admin.delete_pin(topic, name)
        call.report({"deleted": name}, f"Pin {name} of {topic} is deleted.")


def bytes_text(size_bytes: int | None) -> str:
    """Return a number of bytes, followed by the same in the largest fitting unit; ``unknown`` for None."""
    return "unknown" if size_bytes is None else in_words(".bytes", size_bytes)


def _until(pin: Pin) -> str:
    return "" if pin.expires_at is None else f" until {time_text(pin.expires_at)}"
