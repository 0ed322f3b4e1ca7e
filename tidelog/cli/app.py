"""The application of all commands."""

from __future__ import annotations

from tidelog.cli.assembly import assembled

app = assembled()
