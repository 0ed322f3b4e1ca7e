"""The default number of workers, and the share of memory of each.

One gateway keeps 1.2 to 1.3 cores busy: its event loop one, encoding and the system the rest. So three workers use four cores.
More would compete for them, and each takes memory for what it knows of topics and groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import Any, Final

from gateway.network.hosts import EVERY_ADDRESS, is_loopback
from gateway.process.machine import Machine
from gateway.settings.settings import Settings
from gateway.sql.settings import PROCESS_BYTES

WORKERS_MAX: Final = 8
"""Largest default: each worker reads all others' heartbeats, and forwards requests to them."""
SUPERVISOR_BYTES: Final = 100 * 1024 * 1024
"""Memory of the supervisor: 94 MiB were measured, mostly libraries that the settings import."""

LARGEST_REQUEST: Final = 1.75
"""Bytes in flight of a request for each byte of its body, when its records are JSON's smallest: their Arrow form adds 0.6
(measured). With less, a gateway refuses its largest requests for ever."""


def default_workers(settings: Settings, machine: Machine) -> int:
    """Return three workers for four cores, rounded down, 1 to ``WORKERS_MAX``, and as many as memory allows by their stated
    bounds."""
    if _alone(settings):
        return 1
    by_cores = min(int(machine.cores * 3 / 4), WORKERS_MAX)
    return next(
        (count for count in range(by_cores, 1, -1) if total_bytes_max(settings, count) <= machine.memory_bytes), 1
    )


def _alone(settings: Settings) -> bool:
    """Return whether several workers would need something that only an operator can provide."""
    return (
        settings.store.startswith("memory:")  # the store exists in one process only
        or settings.forwarding == "off"  # members of a group must then reach the same gateway
        or (settings.auth == "on" and settings.cluster_key_file is None)  # gateways then forward nothing
        or settings.kafka_listen is not None  # each worker needs a port that Kafka's clients reach
        or (settings.worker_ports is None and _has_peers_elsewhere(settings))  # peers elsewhere also need worker ports
    )


def _has_peers_elsewhere(settings: Settings) -> bool:
    """Return whether gateways on other machines may reach this one at the address they are told."""
    return settings.advertised_url is not None or not (settings.host in EVERY_ADDRESS or is_loopback(settings.host))


def total_bytes_max(settings: Settings, count: int) -> int:
    """Return the most memory of so many workers, with their supervisor, readers of history and SQL processes."""
    beside = settings.readers_bytes + (0 if settings.sql == "off" else PROCESS_BYTES)
    return SUPERVISOR_BYTES + count * (
        settings.model_copy(update=share_memory(settings, count)).process_bytes() + beside
    )


def share_memory(settings: Settings, count: int) -> Mapping[str, int]:
    """Return each worker's share of the memory for requests. Every worker holds the same knowledge of topics, groups and
    transactions, so their budgets are not divided."""
    return {
        "in_flight_bytes_max": min(
            settings.in_flight_bytes_max,
            max(int(settings.request_bytes_max * LARGEST_REQUEST), settings.in_flight_bytes_max // count),
        ),
        "answer_bytes_max": settings.answer_bytes_max // count,
        "tail_cache_bytes_max": settings.tail_cache_bytes_max // count,
        "footer_cache_bytes_max": settings.footer_cache_bytes_max // count,
    }


def worker_arguments(settings: Settings, count: int, number: int) -> list[str]:
    """Return the settings of worker ``number`` of ``count`` as options: its share of memory, its own operators' page, and a
    name that no other process has, including its predecessor in the same place."""
    own: dict[str, Any] = {"workers": 1, "ops_host": "127.0.0.1", "ops_port": 0, **share_memory(settings, count)}
    if "gateway_id" in settings.model_fields_set:
        own["gateway_id"] = f"{settings.gateway_id[:50]}-{number}-{token_hex(4)}"
    return [part for name, value in own.items() for part in ("--" + name.replace("_", "-"), str(value))]
