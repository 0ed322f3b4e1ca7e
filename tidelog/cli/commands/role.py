"""``tidelog role …``: users and groups that have the same rights."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from tidelog.admin import Admin
from tidelog.cli.terminal.console import (
    ADMIN_TIMEOUT_S,
    JsonOption,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    note,
    output,
    print_json,
    reporting,
)
from tidelog.cli.terminal.help_text import Commands

app = Commands(help="Put, list and remove roles: users and groups that have the same rights.")

RoleArgument = Annotated[str, typer.Argument(metavar="NAME", help="The role's name; in ACLs it is Role:NAME.")]


@app.command()
def put(
    role: RoleArgument,
    members: Annotated[list[str], typer.Argument(metavar="MEMBER…", help="User:… and Group:….")],
    *,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = ADMIN_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Say who is in a role: these, and no one else.

    \b
    Examples:
      tidelog role put admins User:ann User:bob Group:operators
    """
    with reporting(as_json=as_json), Admin(url, token_file=token_file, timeout_ms=timeout * 1000) as admin:
        stored = admin.put_role(role, members)
        if as_json:
            print_json(stored)
        else:
            note(f"Role {stored.role} has {', '.join(stored.members)}.")


@app.command("list")
def list_(
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = ADMIN_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """List the roles and their members.

    \b
    Examples:
      tidelog role list
      tidelog role list --json
    """
    with reporting(as_json=as_json), Admin(url, token_file=token_file, timeout_ms=timeout * 1000) as admin:
        roles = admin.list_roles()
        if as_json:
            print_json({"roles": roles})
            return
        if not roles:
            note("There are no roles.")
            return
        table = Table("role", "members", box=None, pad_edge=False)
        for each in roles:
            table.add_row(*(text.replace("[", r"\[") for text in (each.role, " ".join(each.members))))
        output().print(table)


@app.command()
def remove(
    role: RoleArgument,
    *,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Be content when there is no such role.")] = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = ADMIN_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Remove a role. ACLs of Role:NAME stay, and mean no one until the role is put again.

    \b
    Examples:
      tidelog role remove admins
    """
    with reporting(as_json=as_json), Admin(url, token_file=token_file, timeout_ms=timeout * 1000) as admin:
        admin.delete_role(role, missing_ok=if_exists)
        if as_json:
            print_json({"removed": role})
        else:
            note(f"Role {role} is removed.")
