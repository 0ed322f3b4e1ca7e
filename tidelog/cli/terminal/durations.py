"""Spans and times as they are typed: ``30d``, ``12h``, or a time in ISO 8601."""

from __future__ import annotations

import time

from tidelog.cli.terminal.units import setting_value
from tidelog.cli.terminal.where import milliseconds


def span_ms(text: str, option: str) -> int:
    """``30d``, ``12h`` or ``1h30m`` as milliseconds. Raises ``ValueError``."""
    value = setting_value(f"{option}.ms", text)
    if text.isdecimal() or not value.isdecimal():
        raise ValueError(f"{option} {text!r} is no span: write 30d, 12h, 45m or 90s")
    return int(value)


def time_ms(text: str, option: str) -> int:
    """A span from now, or a time in ISO 8601 (UTC without a zone), as milliseconds since the epoch. Raises ``ValueError``."""
    try:
        return time.time_ns() // 1_000_000 + span_ms(text, option)
    except ValueError:
        pass
    try:
        return milliseconds(text)
    except ValueError:
        raise ValueError(
            f"{option} {text!r} is neither a span (30d, 12h) nor a time such as 2026-12-31T12:00:00Z"
        ) from None
