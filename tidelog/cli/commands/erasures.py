"""``tidelog topic erase`` and ``erasures``: erase what a topic has of a person, and see how far that is."""

from __future__ import annotations

from typing import Annotated

import typer

from log_format.words import counted
from tidelog.cli.sources.times import Times
from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.names import TopicArgument
from tidelog.cli.terminal.positions import past_ms
from tidelog.cli.terminal.tables import table, time_text
from tidelog.types.erasure import ErasedLetters, Erasure


def erase(
    topic: TopicArgument,
    *,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="KEY", help="Erase the records with this key. Repeatable.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="Erase the records with this header. Repeatable."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Erase the records whose typed columns are like this."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only records before this time: ISO 8601, a duration before now (30d), @milliseconds.",
        ),
    ] = None,
    yes: YesOption = False,
    call: AdminCall,
) -> None:
    """Erase the values of records with a key or header, or by their typed columns, for good.

    Maintenance carries it out: the records stay at their offsets, with their keys and without values (setting erase.keep). Older
    files are deleted after erase.grace.ms. Dead letters of the records are erased, too, where you have the right Delete. What
    comes after the request is not touched.

    A condition names members of typed columns: --where "data.customer = 7 and data.country in ('DE', 'FR')".

    \b
    Examples:
      tidelog topic erase orders --key user-7 --yes
      tidelog topic erase orders --header user=7 --before 2026-01-01T00:00:00Z --yes
    """
    pairs = [_pair(text) for text in header or ()]
    if not (key or pairs or where):
        raise typer.BadParameter("give --key, --header or --where")
    before_ms = None if before is None else (Times().of(before) if before.isdecimal() else past_ms(before))
    with call.admin() as admin:
        confirm(f"Erase these records of topic {topic} for good?", yes=yes)
        made = admin.erase(topic, key or (), headers=pairs, where=where, before_ms=before_ms)
        call.report(
            made,
            f"Requested: {made.erasure_id}. Maintenance erases it; 'tidelog topic erasures {topic}' tells how far it is.",
            *(_told(letters) for letters in made.dead_letters),
            *(f"Not reached: {what}." for what in made.not_reached),
            *(f"A clone, which may have them, too: tidelog topic erase {name} …" for name in made.clones or ()),
            *(["Whether the topic has clones is not known: ask again."] if made.clones is None else []),
        )


def erasures(topic: TopicArgument, *, call: TableCall) -> None:
    """List requests to erase, and how far they are.

    \b
    Examples:
      tidelog topic erasures orders
      tidelog topic erasures orders --json
    """
    with call.admin() as admin:
        shown = table("id", "requested", "status", "records", "version", "older files")
        none = f"Topic {topic} has no requests to erase."
        call.show_list({"erasures": admin.list_erasures(topic)}, shown, _row, none=none)


def _row(one: Erasure) -> tuple[str, ...]:
    files = "" if one.files_until is None else f"until {time_text(one.files_until)}"
    if one.gone_at is not None:
        files = f"gone at {time_text(one.gone_at)}"
    version = "" if one.version is None else str(one.version)
    return one.erasure_id, time_text(one.requested_at), one.status, counted(one.records, "record"), version, files


def _told(letters: ErasedLetters) -> str:
    if letters.erasure_id is None:
        return f"Not reached: dead letters in topic {letters.topic}, where you lack the right Delete."
    return f"Requested for dead letters in topic {letters.topic}: {letters.erasure_id}."


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"--header {text!r} is not NAME=VALUE")
    return name, value
