"""What ``tidelog topic describe`` says of a topic's schemas."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from log_format.errors import TidelogError
from log_format.records.sql import quote_identifier
from log_format.words import counted
from tidelog.admin import Admin
from tidelog.types.topic import Topic

_MEMBERS_SHOWN: Final = 3
"""Members in the query that is suggested."""
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")


def schema_lines(admin: Admin, topic: Topic) -> Iterator[tuple[str, str]]:
    """Yield a name and a text for each schema of the topic; of a topic with columns also its marked records, and a query."""
    for part, column in (("value", "data"), ("key", "key_data")):
        if subject := topic.config.get(f"{part}.schema"):
            newest = _newest(admin, str(subject))
            yield f"{part}s", f"{subject}{newest}, in column {column}; 'tidelog schema show {subject}' shows it"
    if topic.columns:
        yield from _marked(admin, topic)
        yield "query", f"tidelog sql {shlex.quote(query(topic))}"


def query(topic: Topic) -> str:
    """Return a query of the topic's first members."""
    members = [one.name for one in topic.columns if one.name != "data_error" and "`" not in one.name] or ["data_error"]
    names = [".".join(_identifier(part) for part in member.split(".")) for member in members[:_MEMBERS_SHOWN]]
    # A topic may have a reserved word as its name; behind a dot such a word is a name.
    return f"select {', '.join(names)} from {quote_identifier(topic.name)} limit 10"  # noqa: S608 - text for a person


def _newest(admin: Admin, subject: str) -> str:
    """Describe the subject's newest version; nothing if the caller may not read it."""
    try:
        found = admin.schemas().latest(subject)
    except TidelogError:
        return ""
    return f", version {found.version} (id {found.id}, {found.schema_type})"


def _marked(admin: Admin, topic: Topic) -> Iterator[tuple[str, str]]:
    commits = [one for one in admin.table_commits(topic.name) if one.marked is not None]
    records, marked = sum(one.records for one in commits), sum(one.marked or 0 for one in commits)
    if not records:
        return
    why = "; column data_error says why" if marked else ""
    newest = "newest commit" if len(commits) == 1 else f"{len(commits)} newest commits"
    yield "marked", f"{marked:,} of {counted(records, 'record')} in the {newest}{why}"


def _identifier(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quote_identifier(name)
