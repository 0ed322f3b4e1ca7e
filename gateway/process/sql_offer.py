"""Whether a gateway answers SQL: by its setting, and by what is installed."""

from __future__ import annotations

import importlib.util
import os
import sys

from gateway.process.sql_statement import statement_command, statement_environment
from gateway.settings.settings import Settings, SettingsError
from gateway.sql.statements import Statements


def make_statements(settings: Settings) -> Statements | None:
    """Return what answers statements; None if SQL is not offered. Raise ``SettingsError`` for ``on`` if a requirement is
    missing."""
    is_there = sys.platform == "linux" and importlib.util.find_spec("duckdb") is not None
    if settings.sql == "on" and not is_there:
        raise SettingsError("TIDELOG_SQL: sql=on needs Linux and DuckDB: pip install 'tidelog[sql]'")
    may_anyone_ask = settings.auth == "off" and settings.insecure
    if not is_there or settings.sql == "off" or (settings.sql == "auto" and may_anyone_ask):
        return None
    return Statements(statement_command(), statement_environment(os.environ))
