"""``tidelog share …``: topics for clients of Delta Sharing."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidelog.cli.sinks.secret_file import others_may_read, secret_file
from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.console import note, print_json, reporting
from tidelog.cli.terminal.durations import time_ms
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.tables import table, time_text
from tidelog.types.share import Share

app = Commands(help="Share topics with clients of Delta Sharing: pandas, Power BI and others.")

NameArgument = Annotated[str, typer.Argument(help="The share's name.")]


@app.command()
def create(
    name: NameArgument,
    *,
    topics: Annotated[
        list[str],
        typer.Option(metavar="TOPIC,…", help="Topics to share, joined by commas; logs-* for all that begin with it."),
    ],
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="A duration from now (30d) or a time in ISO 8601, within 366 days. Default: 90d."
        ),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The gateways' address for the share's readers. Default: that of --url."),
    ] = None,
    output_: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the profile to this file (mode 0600)."),
    ] = None,
    call: AdminCall,
) -> None:
    """Share topics, and write the profile file for a client of Delta Sharing. Its token can't be displayed again.

    The share is a user, User:share-NAME, that may read the topics. The same name again adds topics, and makes another token.

    \b
    Examples:
      tidelog share create partners --topics orders,refunds --output partners.share
      tidelog share create analysts --topics 'logs-*' --expires 30d --endpoint https://tidelog.example --json
    """
    with reporting(as_json=call.as_json), contextlib.ExitStack() as kept:
        expires_at = None if expires is None else time_ms(expires, "--expires")
        write = None if output_ is None else kept.enter_context(secret_file(output_))
        with call.unreported() as admin:
            named = [topic for part in topics for topic in part.split(",") if topic]
            made = admin.create_share(name, named, expires_at=expires_at, endpoint=endpoint)
        profile = msgspec.json.encode(made.profile()).decode() + "\n"
        if write is not None:
            write(profile)
        if call.as_json:
            shown = {key: value for key, value in msgspec.to_builtins(made).items() if key != "token" or write is None}
            print_json(shown)
            return
        until = "" if made.expires_at is None else f", valid until {time_text(made.expires_at)}"
        note(f"Share {name} has {', '.join(made.topics)}{until}. Its token is shown only now.")
        if write is not None:
            note(f"Read it by {output_}#{name}.topics.TOPIC; dots of a topic are %2E there.")
            return
        sys.stdout.write(profile)
        if others_may_read(sys.stdout):
            note("Other users can read the file with the token: run 'chmod 600' on it now.")


@app.command("list")
def list_(*, call: TableCall) -> None:
    """List the shares: their topics, and when their last token ends.

    \b
    Examples:
      tidelog share list
      tidelog share list --json
    """
    with call.admin() as admin:
        shares = table()
        shares.add_column("share", no_wrap=True)
        for heading in ("topics", "expires"):
            shares.add_column(heading, overflow="fold")
        call.show_list({"shares": admin.list_shares()}, shares, _row, none="There are no shares.")


@app.command()
def delete(
    name: NameArgument,
    *,
    yes: YesOption = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if there is no such share.")] = False,
    call: AdminCall,
) -> None:
    """Delete a share: its tokens and its rights. Every gateway refuses it within 5 seconds. Asks for confirmation.

    \b
    Examples:
      tidelog share delete partners --yes
    """
    with call.admin() as admin:
        confirm(f"Delete share {name} with its tokens and rights?", yes=yes)
        if not admin.delete_share(name) and not if_exists:
            raise ValueError(f"there is no share {name!r}")
        call.report(
            {"deleted": name},
            f"Share {name} is deleted. Every gateway refuses it within 5 seconds; addresses of files end within 15 minutes.",
        )


def _row(share: Share) -> list[str]:
    return [share.name, " ".join(share.topics), "-" if share.expires_at is None else time_text(share.expires_at)]
