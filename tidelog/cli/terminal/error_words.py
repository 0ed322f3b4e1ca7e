"""Errors of gateways in the command line's own words; ``--json`` has them as the gateway said them."""

from __future__ import annotations

from typing import Any

from log_format.errors import ErrorCode, TidelogError
from tidelog.errors import Unauthorized

_MEMBERS = {"/partition_count": "--partitions", "/name": "NAME"}
_CONFIG = "/config/"
_TOKEN = "--token-file names the file with your token; so does TIDELOG_TOKEN_FILE."  # noqa: S105 - a hint


def sentence(error: TidelogError) -> str:
    """What is wrong, and what to type about it."""
    topic = error.fields.get("topic")
    if error.code is ErrorCode.UNKNOWN_TOPIC and topic is not None:
        return (
            f"Topic {topic!r} does not exist. 'tidelog topic create {topic}' makes it, 'tidelog topic list' shows all."
        )
    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return error.detail.replace("Use PATCH to change it.", "'tidelog topic alter' changes it.")
    if error.code is ErrorCode.UNAUTHENTICATED:
        return f"{error.detail.rstrip('.')}. {_TOKEN}"
    if isinstance(error, Unauthorized) and error.resource is not None:
        kind = "" if error.resource_type == "cluster" else f"{error.resource_type} "
        return f"You may not {error.operation} {kind}{error.resource!r}. 'tidelog whoami' says who you are."
    return error.detail


def places(error: TidelogError) -> list[str]:
    """Each error with where it is, unless it is one setting, which the sentence names already."""
    found = error.fields.get("errors")
    given = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    # Without a field it is the whole request, which the sentence names already.
    shown = [each for each in given if each.get("where")]
    if len(shown) == 1 and _is_setting(shown[0]) and str(shown[0].get("what")) in error.detail:
        return []
    lines = [f"{_place(each)}: {each.get('what')}" for each in shown]
    return [each for each in lines if each != error.detail]


def _is_setting(error: dict[str, Any]) -> bool:
    return str(error["where"]).startswith(_CONFIG) or error["where"] in _MEMBERS


def _place(error: dict[str, Any]) -> str:
    where = str(error["where"])
    if where.startswith(_CONFIG):
        return f"--config {where.removeprefix(_CONFIG)}"
    return _MEMBERS.get(where, where)
