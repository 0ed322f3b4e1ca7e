"""What a description suggests about a typed topic."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from tidelog.cli.commands.typed_topic import schema_lines
from tidelog.types.topic import Topic, TopicColumn

_NO_COMMITS: Any = SimpleNamespace(table_commits=lambda _topic: [])
"""An ``Admin`` of a gateway that has only empty topics."""


@pytest.mark.parametrize("name", ["orders", "pay-ments.dead-letters", "order"])
@pytest.mark.parametrize("member", ["data.id", "data.group", "data.It's", "key_data.a-b.order"])
def test_a_suggested_query_is_one_that_a_shell_and_sql_take(name: str, member: str) -> None:
    """Whatever the topic and its members are called, the shell passes the query on whole, and it reads that topic."""
    topic = Topic(name=name, partition_count=1, columns=(TopicColumn(member, "long"),))
    ((label, line),) = schema_lines(_NO_COMMITS, topic)
    program, command, statement = shlex.split(line)
    assert (label, program, command) == ("query", "tidelog", "sql")
    column, *parts = member.split(".")
    value = "7"
    for part in reversed(parts):
        value = f'struct_pack("{part}" := {value})'
    with duckdb.connect() as database:
        database.execute(f'create table "{name}" as select {value} as {column}')
        assert database.execute(statement).fetchall() == [(7,)]
