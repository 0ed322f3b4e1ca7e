"""Times of rows in milliseconds, with checks for times in a wrong unit or already expired."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from log_format.limits import TIMESTAMP_MS_MAX
from tidelog.cli.terminal.positions import milliseconds

_YEAR_2000_MS: Final = 946_684_800_000
"""Lower limit for plausible milliseconds: seconds of any time up to the year 31,969 are smaller numbers."""


class TimeUnit(StrEnum):
    """Unit of numeric times since the epoch."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


_MS: Final = {TimeUnit.S: (1000, 1), TimeUnit.MS: (1, 1), TimeUnit.US: (1, 1_000), TimeUnit.NS: (1, 1_000_000)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Reader of times. ``now_ms`` and the topic's ``retention_ms`` (-1: unlimited) decide which are too old; ``now_ms`` None:
    none is."""

    unit: TimeUnit = TimeUnit.MS
    now_ms: int | None = None
    retention_ms: int = -1

    def of(self, value: Any) -> int | None:
        """Return a number in ``unit``, its text, or an ISO 8601 time as milliseconds; None for None.

        Raises ``ValueError`` that names the time and the remedy.
        """
        if value is None:
            return None
        given = value
        is_number = not isinstance(value, str) or value.isdecimal()
        if isinstance(value, str):
            value = int(value) if is_number else milliseconds(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{given!r} is not a time since the epoch")
        if is_number:
            times, per = _MS[self.unit]
            value = value * times // per
        if not 0 <= value <= TIMESTAMP_MS_MAX:
            hint = f", read in {self.unit}: set --timestamp-unit" if is_number else ""
            raise ValueError(f"{given!r} is not a time from 1970 to 9999{hint}")
        self._check_age(given, value, is_number=is_number)
        return int(value)

    def _check_age(self, given: Any, value_ms: int, *, is_number: bool) -> None:
        if self.now_ms is None:
            return
        at = f"{given!r} is {datetime.fromtimestamp(value_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
        if value_ms < _YEAR_2000_MS:
            units = "--timestamp-unit s, us or ns if numbers are not milliseconds, or " if is_number else ""
            raise ValueError(f"{at}, before 2000: give {units}--allow-old to send it all the same")
        if 0 <= self.retention_ms < self.now_ms - value_ms:
            raise ValueError(
                f"{at}, older than the topic keeps records (retention.ms={self.retention_ms}), so it would soon be "
                "removed: raise retention.ms, or give --allow-old"
            )
