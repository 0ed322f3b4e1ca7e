"""``tidelog token …``: credentials of users and programs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidelog.cli.sinks.secret_file import others_may_read, secret_file
from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.console import note, print_json, reporting
from tidelog.cli.terminal.durations import span_ms, time_ms
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.tables import table, time_text
from tidelog.types.access import AccessToken, NewAccessToken

app = Commands(help="Create, list, rotate and revoke tokens.")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The token's id, which 'token list' shows.")]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the token to this file (mode 0600) instead of standard output.",
    ),
]
ExpiresOption = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN", help="A duration from now (30d, 12h) or a time in ISO 8601, within 366 days. Default: 90d."
    ),
]


@app.command()
def create(
    principal: Annotated[str, typer.Argument(metavar="User:NAME", help="The owner of the token.")],
    *,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="Group:NAME", help="A group that the token's bearer belongs to; repeatable."),
    ] = None,
    description: Annotated[str, typer.Option(help="The token's purpose, shown in lists.")] = "",
    expires: ExpiresOption = None,
    output_: OutputOption = None,
    call: AdminCall,
) -> None:
    """Create a token, and write it as the only line to standard output. It can't be displayed again.

    \b
    Examples:
      tidelog token create User:billing --description 'till 3' --output billing.token
      (umask 077; tidelog token create User:billing --expires 30d > billing.token)
      tidelog token create User:ann --group Group:shop --json
    """
    with reporting(as_json=call.as_json), _kept(output_) as write:
        expires_at = None if expires is None else time_ms(expires, "--expires")
        with call.unreported() as admin:
            made = admin.create_token(principal, groups=group or (), description=description, expires_at=expires_at)
        _hand_over(made, write, output_, as_json=call.as_json)


@app.command("list")
def list_(
    principal: Annotated[str | None, typer.Option(metavar="User:NAME", help="Only the tokens of this user.")] = None,
    *,
    call: TableCall,
) -> None:
    """List the tokens: their ids, never their secrets.

    \b
    Examples:
      tidelog token list
      tidelog token list --principal User:billing --json
    """
    with call.admin() as admin:
        tokens = table("id", "principal", "groups", "created", "expires", "description")
        call.show_list({"tokens": admin.list_tokens(principal)}, tokens, _row, none="There are no tokens.")


@app.command()
def rotate(
    token_id: IdArgument,
    *,
    overlap: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long the previous secret stays valid: up to 7d. Default: 24h."),
    ] = None,
    expires: ExpiresOption = None,
    output_: OutputOption = None,
    call: AdminCall,
) -> None:
    """Give a token a new secret, and write it as 'token create' does. Clients read a changed file again automatically.

    \b
    Examples:
      tidelog token rotate abcd1234 --output billing.token
      tidelog token rotate abcd1234 --overlap 1h --expires 30d --json
    """
    with reporting(as_json=call.as_json), _kept(output_) as write:
        overlap_ms = None if overlap is None else span_ms(overlap, "--overlap")
        expires_at = None if expires is None else time_ms(expires, "--expires")
        with call.unreported() as admin:
            made = admin.rotate_token(token_id, overlap_ms=overlap_ms, expires_at=expires_at)
        _hand_over(made, write, output_, as_json=call.as_json)


@app.command()
def revoke(
    token_id: IdArgument,
    *,
    yes: YesOption = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if the token does not exist.")] = False,
    call: AdminCall,
) -> None:
    """Revoke a token: every gateway refuses it within 5 seconds. Asks for confirmation.

    \b
    Examples:
      tidelog token revoke abcd1234 --yes
    """
    with call.admin() as admin:
        confirm(f"Revoke token {token_id}?", yes=yes)
        admin.revoke_token(token_id, missing_ok=if_exists)
        call.report({"revoked": token_id}, f"Token {token_id} is revoked. Every gateway refuses it within 5 seconds.")


@contextlib.contextmanager
def _kept(path: Path | None) -> Iterator[Callable[[str], None] | None]:
    if path is None:
        yield None
        return
    with secret_file(path) as write:
        yield write


def _hand_over(made: NewAccessToken, write: Callable[[str], None] | None, path: Path | None, *, as_json: bool) -> None:
    """Write the secret to its file or to standard output, and everything else for the user to standard error."""
    if write is not None:
        write(made.token + "\n")
    if as_json:
        shown = msgspec.to_builtins(made)
        if write is not None:
            del shown["token"]
        print_json(shown)
        return
    until = time_text(made.secrets[0].expires_at) if made.secrets else "it is revoked"
    said = f"Token {made.id} of {made.principal}, valid until {until}."
    if write is not None:
        note(f"{said} It is in {path} and nowhere else: use it with --token-file {path}.")
        return
    note(f"{said} Its secret is shown only now.")
    sys.stdout.write(made.token + "\n")
    if others_may_read(sys.stdout):
        note(
            "Other users can read the file with the token: run 'chmod 600' on it now. "
            "--output FILE creates such a file with mode 0600."
        )


def _row(token: AccessToken) -> list[str]:
    created = time_text(token.created_at)
    expires = ", ".join(time_text(secret.expires_at) for secret in token.secrets) or "-"
    return [token.id, token.principal, " ".join(token.groups), created, expires, token.description]
