"""``tidelog acl …``: rights of users, groups and roles."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from log_format.words import counted
from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.console import note, output, print_json
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.tables import table
from tidelog.types.access import AccessDecision, Acl, AclMembers, Operation, Pattern, Permission, ResourceType

app = Commands(help="Add, list, remove and test ACLs: what users, groups and roles may do.")

PrincipalArgument = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="User:…, Group:…, Role:…, or '*' for everyone.")
]
OperationsArgument = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION[,…]",
        help="All, Read, Write, Create, Delete, Alter or Describe; several separated by commas.",
    ),
]
OperationArgument = Annotated[Operation, typer.Argument(metavar="OPERATION", help="Read, Write, Create, …")]
TypeArgument = Annotated[
    ResourceType, typer.Argument(metavar="TYPE", help="topic, group, transactional_id, subject or cluster.")
]
NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The resource's name; '*' for all of its type. Not for the cluster."),
]
PrincipalOption = Annotated[str | None, typer.Option(metavar="PRINCIPAL", help="Only ACLs of this principal.")]
OperationOption = Annotated[Operation | None, typer.Option(help="Only ACLs of this operation.")]
TypeOption = Annotated[ResourceType | None, typer.Option("--type", help="Only ACLs of this type of resource.")]
NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Only ACLs of the resource, or prefix, NAME.")
]
PatternOption = Annotated[Pattern | None, typer.Option(help="Only ACLs of this pattern.")]
PermissionOption = Annotated[Permission | None, typer.Option(help="Only ACLs that allow, or only those that deny.")]

_OPERATIONS: tuple[Operation, ...] = ("All", "Read", "Write", "Create", "Delete", "Alter", "Describe")


@app.command()
def add(
    principal: PrincipalArgument,
    operations: OperationsArgument,
    resource_type: TypeArgument,
    name: NameArgument = None,
    *,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="NAME is a prefix: the ACL is for all names that begin with it.")
    ] = False,
    deny: Annotated[
        bool, typer.Option("--deny", help="Deny the operations. A denial overrides every ACL that allows.")
    ] = False,
    call: AdminCall,
) -> None:
    """Allow operations to a principal, or deny them. Read, Write, Alter and Delete include Describe.

    \b
    Examples:
      tidelog acl add User:billing Read,Write topic orders
      tidelog acl add Group:shop Read topic shop. --prefix
      tidelog acl add User:billing Read group billing
      tidelog acl add Role:admins All cluster
      tidelog acl add '*' Delete topic '*' --deny
    """
    with call.admin() as admin:
        pattern: Pattern = "prefix" if prefix else "literal"
        permission: Permission = "deny" if deny else "allow"
        added = admin.add_acls(
            Acl(
                principal=principal,
                operation=operation,
                resource_type=resource_type,
                resource=_resource(resource_type, name),
                pattern=pattern,
                permission=permission,
            )
            for operation in _operations(operations)
        )
        call.report({"acls": added}, *map(_sentence, added))


@app.command("list")
def list_(
    *,
    principal: PrincipalOption = None,
    operation: OperationOption = None,
    resource_type: TypeOption = None,
    name: NameOption = None,
    pattern: PatternOption = None,
    permission: PermissionOption = None,
    call: TableCall,
) -> None:
    """List the ACLs, or those that match all given options.

    \b
    Examples:
      tidelog acl list
      tidelog acl list --principal User:billing --type topic --json
    """
    named: AclMembers = {
        "principal": principal,
        "operation": operation,
        "resource_type": resource_type,
        "resource": name,
        "pattern": pattern,
        "permission": permission,
    }
    with call.admin() as admin:
        none = "There are no ACLs: only super users may do anything."
        call.show_list(
            {"acls": admin.list_acls(**named)},
            _table(),
            _row,
            none="No ACL matches." if any(named.values()) else none,
        )


@app.command()
def remove(
    *,
    principal: PrincipalOption = None,
    operation: OperationOption = None,
    resource_type: TypeOption = None,
    name: NameOption = None,
    pattern: PatternOption = None,
    permission: PermissionOption = None,
    yes: YesOption = False,
    call: AdminCall,
) -> None:
    """Remove the ACLs that match all given options. Asks for confirmation.

    \b
    Examples:
      tidelog acl remove --principal User:billing --yes
      tidelog acl remove --type topic --name orders --operation Write --yes --json
    """
    named: AclMembers = {
        "principal": principal,
        "operation": operation,
        "resource_type": resource_type,
        "resource": name,
        "pattern": pattern,
        "permission": permission,
    }
    with call.admin() as admin:
        if not yes and any(named.values()):
            found = admin.list_acls(**named)
            for each in found:
                note(_sentence(each))
            confirm(f"Remove {counted(len(found), 'ACL')}?", yes=yes)
        removed = admin.delete_acls(**named)
        said = [f"Removed: {_sentence(each)}" for each in removed]
        call.report({"acls": removed}, *(said or ["No ACL matches."]))


@app.command("test")
def try_(
    principal: Annotated[str, typer.Argument(metavar="User:NAME", help="The user to test.")],
    operation: OperationArgument,
    resource_type: TypeArgument,
    name: NameArgument = None,
    *,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="Group:NAME", help="A group that the user belongs to; repeatable."),
    ] = None,
    call: AdminCall,
) -> None:
    """Say whether a user may do something, and which ACL decides. Exit code 1 if not.

    \b
    Examples:
      tidelog acl test User:billing Write topic orders
      tidelog acl test User:ann Read topic shop.till --group Group:shop --json
    """
    with call.admin() as admin:
        resource = _resource(resource_type, name)
        decision = admin.test_access(principal, operation, resource_type, resource, groups=group or ())
        if call.as_json:
            print_json(decision)
        else:
            output().print(f"{'allowed' if decision.allowed else 'denied'}: {_reason_text(decision)}", markup=False)
    if not decision.allowed:
        raise typer.Exit(ExitCode.FAILED)


def _reason_text(decision: AccessDecision) -> str:
    if decision.acl is not None:
        return _sentence(decision.acl)
    return {
        "super_user": "a super user may do everything",
        "default": "no ACL allows it",
    }.get(decision.reason, decision.reason)


def _sentence(acl: Acl) -> str:
    names = f"those that begin with {acl.resource}" if acl.pattern == "prefix" else acl.resource
    kind = "" if acl.resource_type == "cluster" else f"{acl.resource_type} "
    return f"{acl.principal} may {'' if acl.permission == 'allow' else 'not '}{acl.operation} {kind}{names}"


def _table() -> Table:
    return table("principal", "permission", "operation", "type", "name")


def _row(acl: Acl) -> list[str]:
    name = f"{acl.resource}…" if acl.pattern == "prefix" else acl.resource
    return [acl.principal, acl.permission, acl.operation, acl.resource_type, name]


def _operations(text: str) -> list[Operation]:
    known = {each.lower(): each for each in _OPERATIONS}
    try:
        return [known[each.strip().lower()] for each in text.split(",")]
    except KeyError as error:
        raise ValueError(f"{error.args[0]!r} is not an operation: choose from {', '.join(_OPERATIONS)}") from None


def _resource(resource_type: str, name: str | None) -> str:
    """Return the resource's name, which is always the same for the cluster."""
    if name is None and resource_type != "cluster":
        raise ValueError(f"NAME is missing: name the {resource_type}, or '*' for all of them")
    return name or "cluster"
