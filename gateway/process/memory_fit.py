"""Reduction of the memory for requests if the process may use less than the settings could take.

At a container's limit the kernel kills the process; at a bound a client gets 503 ``OVERLOADED``. So the bounds are lowered to fit
the limit. What is known of topics, groups and transactions must be the same on all gateways, so its budgets are kept.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from gateway.process.worker_count import share_memory, total_bytes_max
from gateway.settings.settings import MEBIBYTE, Settings

SHARES: Final = (1, 2, 3, 4, 6, 8)
"""Parts into which the memory for requests is divided, the fewest that fit. With more a large answer would never fit."""

_log = logging.getLogger("gateway.process.memory_fit")


def bound_bytes(settings: Settings) -> int:
    """Return the most memory of one gateway and its readers of history."""
    return settings.process_bytes() + settings.readers_bytes


def fit_to_memory(settings: Settings, memory_bytes: int) -> Settings:
    """Return the settings for a gateway that may use ``memory_bytes``: if they could take more, first without readers of history,
    then with less memory for requests.

    Settings given by name are kept. What was lowered is logged, and whether that is not enough.
    """
    asked_bytes = bound_bytes(settings)
    if asked_bytes <= memory_bytes:
        return settings
    for share in SHARES:
        lower: dict[str, Any] = {"readers": 0, **share_memory(settings, share)}
        lower = {name: value for name, value in lower.items() if name not in settings.model_fields_set}
        found = settings.model_copy(update=lower)
        if bound_bytes(found) <= memory_bytes:
            break
    _log.warning(
        "the settings may take %d MiB, and this gateway may use %d MiB: %s",
        asked_bytes // MEBIBYTE,
        memory_bytes // MEBIBYTE,
        ", ".join(f"{name}={value}" for name, value in lower.items() if value != getattr(settings, name)) or "as given",
    )
    if (still_bytes := bound_bytes(found)) > memory_bytes:
        _log.warning(
            "that may still take %d MiB: give it so much memory, or the kernel may end it under load",
            still_bytes // MEBIBYTE,
        )
    return found


def warn_of_workers(settings: Settings, count: int, memory_bytes: int) -> None:
    """Log a warning if so many workers may take more than ``memory_bytes``: only a number that an operator has set can be too
    large."""
    needed_bytes = total_bytes_max(settings, count)
    if needed_bytes > memory_bytes:
        _log.warning(
            "%d workers may take %d MiB, and may use %d MiB: the kernel may end one under load",
            count,
            needed_bytes // MEBIBYTE,
            memory_bytes // MEBIBYTE,
        )
