"""Durations and times as typed: ``30d``, ``12h``, or a time in ISO 8601.

Every duration option accepts units. If it also accepts a plain number, its metavar names the number's unit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import typer

from tidelog.cli.terminal.positions import milliseconds
from tidelog.cli.terminal.units import duration_ms, setting_value


def in_seconds(*, least: float, most: float = math.inf) -> Callable[[Any], float]:
    """Return the ``parser`` of an option in seconds: ``3s``, ``500ms``, ``1h``, or a number of seconds.

    The parser raises ``typer.BadParameter`` for other text and outside ``[least, most]``.
    """

    def read(given: Any) -> float:
        span = duration_ms(str(given))
        try:
            found = float(given) if span is None else span / 1000
        except (TypeError, ValueError):
            found = math.nan
        # False for NaN, too.
        if least <= found <= most and math.isfinite(found):
            return found
        raise _refused(given, "seconds", f"{least:g} s", f"{most:g} s")

    return read


def in_milliseconds(*, least: int, most: float = math.inf) -> Callable[[Any], int]:
    """Return the ``parser`` of an option in milliseconds: ``3s``, ``500ms``, ``1h``, or a number of milliseconds.

    The parser raises ``typer.BadParameter`` for other text and outside ``[least, most]``.
    """

    def read(given: Any) -> int:
        text = str(given)
        span = int(text) if text.isdecimal() else duration_ms(text)
        if span is not None and least <= span <= most:
            return span
        raise _refused(given, "milliseconds", f"{least} ms", f"{most:g} ms")

    return read


def span_ms(text: str, option: str) -> int:
    """Return a duration such as ``30d``, ``12h`` or ``1h30m`` in milliseconds. Raises ``ValueError``."""
    value = setting_value(f"{option}.ms", text)
    if text.isdecimal() or not value.isdecimal():
        raise ValueError(f"{option} {text!r} is not a duration: write 30d, 12h, 45m or 90s")
    return int(value)


def time_ms(text: str, option: str) -> int:
    """Return a duration from now, ``@`` and milliseconds, or an ISO 8601 time (UTC without a zone), as milliseconds since the
    epoch. Raises ``ValueError``."""
    if text.startswith("@") and text[1:].isdecimal():
        return int(text[1:])
    try:
        return time.time_ns() // 1_000_000 + span_ms(text, option)
    except ValueError:
        pass
    try:
        return milliseconds(text)
    except ValueError:
        raise ValueError(
            f"{option} {text!r} is neither a duration (30d, 12h) nor a time such as 2026-12-31T12:00:00Z"
        ) from None


def _refused(given: Any, unit: str, least: str, most: str) -> typer.BadParameter:
    ends = f"at least {least}" if most.startswith("inf") else f"{least} to {most}"
    return typer.BadParameter(f"{str(given)!r} is not a duration of {ends} (500ms, 3s, 1h, or a number of {unit})")
