"""Makes the memory for requests smaller where the process may use less than the settings may take.

At a container's limit the kernel ends the process; at a bound a client gets 503 ``OVERLOADED``. So the bounds come down to the
limit. What is known of topics, groups and transactions must be the same in all gateways, and stays.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from gateway.process.worker_count import all_bytes, shared_out
from gateway.settings import MEBIBYTE, Settings

SHARES: Final = (1, 2, 3, 4, 6, 8)
"""Parts into which the memory for requests is divided, the fewest that fit. With more a large answer would never fit."""

_log = logging.getLogger("gateway.process.fitting")


def bound_bytes(settings: Settings) -> int:
    """The most that one gateway and its readers of history hold."""
    return settings.process_bytes() + settings.readers_bytes


def fitted(settings: Settings, memory_bytes: int) -> Settings:
    """The settings, for a gateway that may use so much memory: no readers of history, then less for requests, where they take
    more. What was given by name is not changed. Says in the log what it has lowered, and where that is not enough."""
    asked_bytes = bound_bytes(settings)
    if asked_bytes <= memory_bytes:
        return settings
    for share in SHARES:
        lower: dict[str, Any] = {"readers": 0, **shared_out(settings, share)}
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
    """Say in the log where so many workers may take more memory than they may use: only an operator's number can be too large."""
    needed_bytes = all_bytes(settings, count)
    if needed_bytes > memory_bytes:
        _log.warning(
            "%d workers may take %d MiB, and may use %d MiB: the kernel may end one under load",
            count,
            needed_bytes // MEBIBYTE,
            memory_bytes // MEBIBYTE,
        )
