"""Errors of gateways in the command line's own words; ``--json`` has them as the gateway said them."""

from __future__ import annotations

import re
from typing import Any, Final

from log_format.errors import ErrorCode, TidelogError
from tidelog.cli.terminal.names import RUNNING
from tidelog.errors import Unauthorized

_MEMBERS: Final = {"/partition_count": "--partitions", "/name": "NAME"}
"""What is called otherwise at the shell; the others are called as the option whose letters they have."""
_CONFIG: Final = "/config/"
_OF_A_RECORD: Final = re.compile(r"/records/[0-9]+/(\w+): ")
"""The command says by itself which record of the input it is."""
_TOKEN = "--token-file names the file with your token; so does TIDELOG_TOKEN_FILE."  # noqa: S105 - a hint


def sentence(error: TidelogError) -> str:
    """What is wrong, and what to type about it."""
    topic = error.fields.get("topic")
    if error.code is ErrorCode.UNKNOWN_TOPIC and topic is not None:
        return (
            f"Topic {topic!r} does not exist. 'tidelog topic create {topic}' makes it, 'tidelog topic list' shows all."
        )
    if error.code is ErrorCode.CORRUPT_SEGMENT:
        return f"{error.detail} {repair_of(topic or 'TOPIC')}"
    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return error.detail.replace("Use PATCH to change it.", "'tidelog topic alter' changes it.")
    if error.code is ErrorCode.UNAUTHENTICATED:
        return f"{error.detail.rstrip('.')}. {_TOKEN}"
    if error.code is ErrorCode.NOT_FOUND:
        return "There is nothing of that name. Is a name empty, or the gateway older than this command?"
    if isinstance(error, Unauthorized) and error.resource is not None:
        kind = "" if error.resource_type == "cluster" else f"{error.resource_type} "
        return f"You may not {error.operation} {kind}{error.resource!r}. 'tidelog whoami' says who you are."
    return _in_options(error)


def repair_of(topic: str) -> str:
    """What to do about a topic of which something is lost or damaged."""
    return (
        "Bring the object back from a backup, or do without what is lost: "
        f"'tidelog doctor --store STORE --repair {topic}' (docs/operations.md, Restoring)."
    )


def places(error: TidelogError) -> list[str]:
    """Each error with where it is, unless it is one setting, which the sentence names already."""
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
    """The errors with a place. Without one it is the whole request, which the sentence names already."""
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
    """The option of the running command that a member of a request comes from."""
    if where in _MEMBERS:
        return _MEMBERS[where]
    option = "--" + where.removeprefix("/").replace("_", "-")
    context = RUNNING.get()
    return option if context is not None and any(option in each.opts for each in context.command.params) else None


def _in_options(error: TidelogError) -> str:
    """What the gateway said, with the names of options where it has those of members."""
    said = _OF_A_RECORD.sub(r"\1 ", error.detail)
    for each in _given(error):
        member, option = str(each["where"]).removeprefix("/"), _option(str(each["where"]))
        if option is not None and said.startswith(f"{member} "):
            said = option + said.removeprefix(member)
    return said
