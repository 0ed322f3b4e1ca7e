"""How many workers a gateway has unless it was told, and what each may use.

One gateway keeps 1.2 to 1.3 cores busy: its event loop one, encoding and the system's work the rest. So three workers take four
cores. More would take turns, and each costs memory for what it knows of topics and groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import Any, Final

from gateway.hosts import EVERY_ADDRESS, is_loopback
from gateway.process.machine import Machine
from gateway.settings import Settings
from gateway.sql.settings import PROCESS_BYTES

WORKERS_MAX: Final = 8
"""Unless told: each worker looks at all others' heartbeats, and passes on to them."""
SUPERVISOR_BYTES: Final = 100 * 1024 * 1024
"""What the process that keeps the workers holds: 94 MiB were measured, most of them libraries that the settings import."""


def default_workers(settings: Settings, machine: Machine) -> int:
    """Three for four cores, rounded down, 1 to ``WORKERS_MAX``, and as many as memory allows by their stated bounds."""
    if _alone(settings):
        return 1
    by_cores = min(int(machine.cores * 3 / 4), WORKERS_MAX)
    return next((count for count in range(by_cores, 1, -1) if all_bytes(settings, count) <= machine.memory_bytes), 1)


def _alone(settings: Settings) -> bool:
    """Whether several workers would need what only an operator can say or give."""
    return (
        settings.store.startswith("memory:")  # a store of one process
        or settings.forwarding == "off"  # then members of a group must ask one gateway
        or (settings.auth == "on" and settings.cluster_key_file is None)  # then gateways pass nothing on
        or settings.kafka_listen is not None  # each worker needs a port that Kafka's clients reach
        or (settings.worker_ports is None and _has_peers_elsewhere(settings))  # so do gateways of other machines
    )


def _has_peers_elsewhere(settings: Settings) -> bool:
    """Whether gateways of other machines are told an address that may lead them here."""
    return settings.advertised_url is not None or not (settings.host in EVERY_ADDRESS or is_loopback(settings.host))


def all_bytes(settings: Settings, count: int) -> int:
    """The most that so many workers hold, with their supervisor, their readers of history and their processes of SQL."""
    beside = settings.readers_bytes + (0 if settings.sql == "off" else PROCESS_BYTES)
    return SUPERVISOR_BYTES + count * (settings.model_copy(update=shared_out(settings, count)).process_bytes() + beside)


def shared_out(settings: Settings, count: int) -> Mapping[str, int]:
    """The memory that requests take, as each of so many workers has it. What is known of topics, groups and transactions is the
    same in each, so those budgets are not shared out."""
    return {
        "in_flight_bytes_max": max(settings.request_bytes_max, settings.in_flight_bytes_max // count),
        "answer_bytes_max": settings.answer_bytes_max // count,
        "tail_cache_bytes_max": settings.tail_cache_bytes_max // count,
        "footer_cache_bytes_max": settings.footer_cache_bytes_max // count,
    }


def worker_arguments(settings: Settings, count: int, number: int) -> list[str]:
    """Settings of worker ``number`` of ``count``, as options: its share of memory, a page of its own for operators, and a name
    that no other process has, its predecessor in the same place neither."""
    own: dict[str, Any] = {"workers": 1, "ops_host": "127.0.0.1", "ops_port": 0, **shared_out(settings, count)}
    if "gateway_id" in settings.model_fields_set:
        own["gateway_id"] = f"{settings.gateway_id[:50]}-{number}-{token_hex(4)}"
    return [part for name, value in own.items() for part in ("--" + name.replace("_", "-"), str(value))]
