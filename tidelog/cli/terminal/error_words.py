"""Gateways' errors in the command line's terms; ``--json`` shows them unchanged."""

from __future__ import annotations

from typing import Any, Final

from log_format.errors import ErrorCode, TidelogError
from log_format.topic_name import NAME_RULE, create_command
from tidelog.cli.terminal.names import RUNNING
from tidelog.cli.terminal.schema_findings import findings, refusal
from tidelog.errors import IncompatibleSchema, Unauthorized, UnknownSchema

_MEMBERS: Final = {"/partition_count": "--partitions", "/name": "NAME"}
"""Members of requests whose options have other names; all others are named like their option."""
_CONFIG: Final = "/config/"
_TOKEN = "Name the file with your token by --token-file or TIDELOG_TOKEN_FILE."  # noqa: S105 - a hint


_CA_FILE: Final = "ca_file or TIDELOG_CA_FILE"
"""Settings that the SDK's message names for an authority's file."""


def sentence(error: TidelogError) -> str:
    """Return what is wrong, and what to type about it."""
    topic = error.fields.get("topic")
    if error.code is ErrorCode.UNKNOWN_TOPIC and topic is not None:
        command = create_command(topic)
        made = f"No topic can: a name {NAME_RULE}." if command is None else f"{command!r} creates it,"
        return f"Topic {topic!r} does not exist. {made} 'tidelog topic list' lists all."
    if error.code is ErrorCode.CORRUPT_SEGMENT:
        return f"{error.detail} {repair_of(topic or 'TOPIC')}"
    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return error.detail.replace("Use PATCH to change it.", "'tidelog topic alter' changes it.")
    if error.code is ErrorCode.UNAUTHENTICATED:
        return f"{error.detail.rstrip('.')}. {_TOKEN}"
    if error.code is ErrorCode.NOT_FOUND:
        return "The gateway does not know this request. Is a name empty, or the gateway older than this command?"
    if isinstance(error, UnknownSchema):
        return f"{error.detail.rstrip('.')}. 'tidelog schema list' shows the subjects, 'tidelog schema versions' their versions."
    if isinstance(error, IncompatibleSchema):
        return refusal(error.detail) or error.detail
    if isinstance(error, Unauthorized) and error.resource is not None:
        kind = "" if error.resource_type == "cluster" else f"{error.resource_type} "
        return f"You may not {error.operation} {kind}{error.resource!r}. 'tidelog whoami' shows who you are."
    if error.code is ErrorCode.INVALID_RECORD and _option("/format") and "is not a member of a record" in error.detail:
        return f"{_in_options(error)} Plain objects, of which each is a value, are sent by --format objects."
    return _in_options(error).replace(_CA_FILE, "--ca-file or TIDELOG_CA_FILE")


def about_tls(error: TidelogError) -> bool:
    """Return whether something runs at the address, and what is wrong is its certificate, or http for https."""
    return "certificate" in error.detail or "TLS" in error.detail


def repair_of(topic: str) -> str:
    """Return the advice for a topic with lost or damaged data."""
    return (
        "Restore the object from a backup, or repair the topic without the lost data: "
        f"'tidelog doctor --store STORE --repair {topic}' (docs/operations.md, Restoring)."
    )


def places(error: TidelogError) -> list[str]:
    """Return each error with its place, or each finding about a schema, except a single setting that the sentence names."""
    if isinstance(error, IncompatibleSchema):
        return findings(error.detail)
    shown = _given(error)
    if len(shown) == 1 and _is_setting(shown[0]) and str(shown[0].get("what")) in error.detail:
        return []
    told = sentence(error)
    lines = [(_place(each), each.get("what"), each["where"]) for each in shown]
    return [
        f"{place}: {what}"
        for place, what, where in lines
        if f"{place} {what}" not in told and f"{where}: {what}" not in error.detail
    ]


def _given(error: TidelogError) -> list[dict[str, Any]]:
    """Return the errors that have a place. One without a place is about the whole request, and in the sentence already."""
    found = error.fields.get("errors")
    return [each for each in found if isinstance(each, dict) and each.get("where")] if isinstance(found, list) else []


def _is_setting(error: dict[str, Any]) -> bool:
    return str(error["where"]).startswith(_CONFIG) or error["where"] in _MEMBERS


def _place(error: dict[str, Any]) -> str:
    where = str(error["where"])
    if where.startswith(_CONFIG):
        return f"--config {where.removeprefix(_CONFIG)}"
    return _option(where) or where


def _option(where: str) -> str | None:
    """Return the running command's option for a member of the request, if there is one."""
    if where in _MEMBERS:
        return _MEMBERS[where]
    option = "--" + where.removeprefix("/").replace("_", "-")
    context = RUNNING.get()
    return option if context is not None and any(option in each.opts for each in context.command.params) else None


def _in_options(error: TidelogError) -> str:
    """Return the gateway's message, with members of the request replaced by their options."""
    said = error.detail
    for each in _given(error):
        member, option = str(each["where"]).removeprefix("/"), _option(str(each["where"]))
        if option is not None and said.startswith(f"{member} "):
            said = option + said.removeprefix(member)
    return said
