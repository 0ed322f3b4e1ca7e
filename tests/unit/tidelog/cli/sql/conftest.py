"""Topics of a fake gateway as tables of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fake_gateway import FakeGateway
from tests.support.numbered_records import add
from tidelog.admin import Admin
from tidelog.cli.sql.topic_database import TopicDatabase, memory_database
from tidelog.cli.terminal.positions import parse_position


@pytest.fixture
def topics(gateway: FakeGateway) -> Iterator[TopicDatabase]:
    gateway.create("orders", 2)
    add(gateway, "orders", 3)
    settings = {"bootstrap_servers": gateway.url}
    with memory_database("100MB") as database, Admin(gateway.url) as admin:
        yield TopicDatabase(database, admin, settings, parse_position("earliest"), None, shown=False)
