"""Durations and sizes with units, as typed and as shown: ``7d``, ``1h30m``, ``1.5s``, ``512KiB``, ``1GB``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_DURATIONS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SIZES: Final = {
    "TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10,
    "TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1,
}  # fmt: skip
_PARTS: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[A-Za-z]+)+")
_PART: Final = re.compile(r"([0-9.]+)([A-Za-z]+)")
_LOWER_SIZES: Final = {unit.lower(): size for unit, size in _SIZES.items()}


def setting_value(name: str, text: str) -> str:
    """Return a setting's value as gateways expect it: units become milliseconds (``….ms``) or bytes (``….bytes``).

    Other values are returned unchanged, for the gateway to validate. Raises ``ValueError`` for an unknown unit.
    """
    if not _PARTS.fullmatch(text):
        return text
    if name.endswith(".ms"):
        return str(_sum(name, text, _DURATIONS_MS))
    if name.endswith(".bytes"):
        return str(_sum(name, text, _LOWER_SIZES))
    return text


def duration_ms(text: str) -> int | None:
    """Return a duration such as ``1h30m`` in milliseconds; None if the text is no duration."""
    parts = _PART.findall(text) if _PARTS.fullmatch(text) else []
    if not parts or any(unit not in _DURATIONS_MS for _, unit in parts):
        return None
    return round(sum(Decimal(number) * _DURATIONS_MS[unit] for number, unit in parts))


def duration_text(ms: int) -> str:
    """Return a duration in its two largest units, rounded: ``2h5m``, ``3.4s``, ``80ms``."""
    if ms < 1_000:
        return f"{ms}ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f}".removesuffix(".0") + "s"
    rounded_to = "h" if ms >= _DURATIONS_MS["d"] else "m" if ms >= _DURATIONS_MS["h"] else "s"
    unit = _DURATIONS_MS[rounded_to]
    return _split(round(ms / unit) * unit)


def size_text(size_bytes: int) -> str:
    """Return a number of bytes in the largest fitting unit, rounded: ``8MiB``, ``1.5KiB``, ``80B``."""
    unit = next(unit for unit in ("TiB", "GiB", "MiB", "KiB", "B") if size_bytes >= _SIZES[unit] or unit == "B")
    return f"{round(size_bytes / _SIZES[unit], 2):g}{unit}"


def in_words(name: str, value: int | str) -> str:
    """Return a setting's value, followed by the same in the largest fitting units: ``604800000 (7d)``."""
    if not isinstance(value, int) or value <= 0:
        return str(value)
    if value == 2**63 - 1:
        return f"{value} (no limit)"
    if name.endswith(".ms") and value >= _DURATIONS_MS["s"]:
        return f"{value} ({_split(value)})"
    if name.endswith(".bytes") and value >= _SIZES["KiB"]:
        unit = next(unit for unit in ("TiB", "GiB", "MiB", "KiB") if value >= _SIZES[unit])
        count = value / _SIZES[unit]
        return f"{value} ({count:g}{unit})" if count == round(count, 2) else f"{value} (about {count:.2f}{unit})"
    return str(value)


def _sum(name: str, text: str, units: dict[str, int]) -> int:
    total = Decimal(0)
    for number, unit in _PART.findall(text):
        size = units.get(unit if unit in units else unit.lower())
        if size is None:
            known = _DURATIONS_MS if units is _DURATIONS_MS else _SIZES
            raise ValueError(f"{name}={text}: {unit!r} is not a unit; the units are {', '.join(known)}")
        total += Decimal(number) * size
    return round(total)


def _split(ms: int) -> str:
    parts = []
    for unit, size in _DURATIONS_MS.items():
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
