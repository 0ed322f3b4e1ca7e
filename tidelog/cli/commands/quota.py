"""``tidelog quota …``: limits on a principal's usage."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.tables import table
from tidelog.cli.terminal.units import setting_value
from tidelog.types.access import Quota

app = Commands(help="Set and list quotas: limits of a principal's usage.")

_NAMES = tuple(field.name for field in dataclasses.fields(Quota) if field.name != "principal")
_NONE = "none"


def _limit(what: str, metavar: str = "NUMBER") -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar=metavar, help=f"{what}; 'none' for no limit.")
    return option


@app.command("set")
def set_(
    principal: Annotated[
        str, typer.Argument(metavar="PRINCIPAL", help="User:NAME, or '*': each user that has no quota of its own.")
    ],
    *,
    produce_bytes_per_s: Annotated[str | None, _limit("Bytes of records sent in a second, such as 1MB", "SIZE")] = None,
    fetch_bytes_per_s: Annotated[str | None, _limit("Bytes of records read in a second, such as 1MB", "SIZE")] = None,
    requests_per_s: Annotated[str | None, _limit("Requests in a second")] = None,
    partitions_created_per_minute: Annotated[str | None, _limit("Partitions created in a minute")] = None,
    connections: Annotated[str | None, _limit("Concurrent connections")] = None,
    event_streams: Annotated[str | None, _limit("Concurrent event streams")] = None,
    call: AdminCall,
) -> None:
    """Change a principal's quota; limits that are not given are unchanged. They apply to all gateways together.

    \b
    Examples:
      tidelog quota set User:billing --produce-bytes-per-s 1MB --requests-per-s 50
      tidelog quota set '*' --connections 20
      tidelog quota set User:billing --requests-per-s none
    """
    given = {
        "produce_bytes_per_s": produce_bytes_per_s,
        "fetch_bytes_per_s": fetch_bytes_per_s,
        "requests_per_s": requests_per_s,
        "partitions_created_per_minute": partitions_created_per_minute,
        "connections": connections,
        "event_streams": event_streams,
    }
    with call.admin() as admin:
        changes = {name: _number(name, text) for name, text in given.items() if text is not None}
        if not changes:
            raise ValueError("there is nothing to change: give at least one limit")
        stored = admin.set_quota(Quota(**dataclasses.asdict(admin.describe_quota(principal)) | changes))
        call.report(stored, f"{stored.principal}: {_limits_text(stored)}.")


@app.command("list")
def list_(call: TableCall) -> None:
    """List the quotas.

    \b
    Examples:
      tidelog quota list
      tidelog quota list --json
    """
    with call.admin() as admin:
        quotas = table("principal")
        for name in _NAMES:
            quotas.add_column(name.replace("_", " "), justify="right", overflow="fold")
        call.show_list(
            {"quotas": admin.list_quotas()},
            quotas,
            _row,
            none="There are no quotas: usage is not limited.",
        )


def _row(quota: Quota) -> list[str]:
    limits = (getattr(quota, name) for name in _NAMES)
    return [quota.principal, *("-" if limit is None else f"{limit:,}" for limit in limits)]


def _number(name: str, text: str) -> int | None:
    if text == _NONE:
        return None
    text = setting_value("quota.bytes" if "_bytes_" in name else name, text)
    if not text.isdecimal():
        raise ValueError(f"--{name.replace('_', '-')} {text!r} is neither a number nor 'none'")
    return int(text)


def _limits_text(quota: Quota) -> str:
    limits = {name: getattr(quota, name) for name in _NAMES}
    named = [f"{name.replace('_', ' ')} {limit:,}" for name, limit in limits.items() if limit is not None]
    return ", ".join(named) or "no limits"
