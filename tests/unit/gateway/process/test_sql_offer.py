"""SQL is offered where DuckDB is and where the caller is known, and never by surprise."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.process.sql_offer import make_statements
from gateway.settings.settings import Settings, SettingsError

BEYOND = {"host": "0.0.0.0", "insecure": True}


@pytest.mark.parametrize(
    ("given", "is_offered"),
    [
        ({}, True),
        ({"auth": "on", "host": "0.0.0.0"}, True),
        (BEYOND, False),
        (BEYOND | {"auth": "on"}, True),
        (BEYOND | {"sql": "on"}, True),
        ({"sql": "off"}, False),
        ({"auth": "on", "sql": "off"}, False),
    ],
)
def test_where_it_is_offered(given: dict[str, Any], is_offered: bool) -> None:
    """On loopback and with ``auth=on``; where anyone may ask only if that was said."""
    assert (make_statements(Settings(store="x", **given)) is not None) == is_offered


def test_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not offered; a gateway that is to offer it does not start, and says what is missing."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert make_statements(Settings(store="x")) is None
    with pytest.raises(SettingsError, match=r"tidelog\[sql\]"):
        make_statements(Settings(store="x", sql="on"))
