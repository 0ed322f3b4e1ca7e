"""``tidelog role …``: named sets of users and groups with the same rights."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.tables import table

app = Commands(help="Put, list and remove roles: users and groups that have the same rights.")

RoleArgument = Annotated[str, typer.Argument(metavar="NAME", help="The role's name; in ACLs it is Role:NAME.")]


@app.command()
def put(
    role: RoleArgument,
    members: Annotated[list[str], typer.Argument(metavar="MEMBER…", help="User:… and Group:….")],
    *,
    call: AdminCall,
) -> None:
    """Set the members of a role to exactly these.

    \b
    Examples:
      tidelog role put admins User:ann User:bob Group:operators
    """
    with call.admin() as admin:
        stored = admin.put_role(role, members)
        call.report(stored, f"Role {stored.role} has {', '.join(stored.members)}.")


@app.command("list")
def list_(call: TableCall) -> None:
    """List the roles and their members.

    \b
    Examples:
      tidelog role list
      tidelog role list --json
    """
    with call.admin() as admin:
        call.show_list(
            {"roles": admin.list_roles()},
            table("role", "members"),
            lambda role: (role.role, " ".join(role.members)),
            none="There are no roles.",
        )


@app.command()
def remove(
    role: RoleArgument,
    *,
    yes: YesOption = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if the role does not exist.")] = False,
    call: AdminCall,
) -> None:
    """Remove a role. ACLs of Role:NAME remain, without effect until the role is put again. Asks for confirmation.

    \b
    Examples:
      tidelog role remove admins --yes
    """
    with call.admin() as admin:
        confirm(f"Remove role {role}?", yes=yes)
        admin.delete_role(role, missing_ok=if_exists)
        call.report({"removed": role}, f"Role {role} is removed.")
