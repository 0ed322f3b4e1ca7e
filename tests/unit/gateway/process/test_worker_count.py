"""How many workers a gateway has unless it was told: by cores, by memory, and one where more would need an operator."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.process.machine import Machine
from gateway.process.worker_count import default_workers, share_memory, total_bytes_max, worker_arguments
from gateway.settings.settings import Settings

GIB = 1 << 30


def settings(**given: Any) -> Settings:
    return Settings(**{"store": "./data", **given})


@pytest.mark.parametrize(
    ("cores", "count"), [(0.5, 1), (1, 1), (2, 1), (2.6, 1), (2.7, 2), (3, 2), (4, 3), (6, 4), (8, 6), (11, 8), (64, 8)]
)
def test_three_for_four_cores(cores: float, count: int) -> None:
    """Rounded down, at least one, at most eight."""
    assert default_workers(settings(), Machine(cores=cores, memory_bytes=256 * GIB)) == count


def test_memory_bounds_the_count() -> None:
    """All stated bounds fit: workers, their readers, their statements, the supervisor. One byte less is a worker less."""
    given = settings()
    for count in (2, 3, 5):
        needed = total_bytes_max(given, count)
        assert default_workers(given, Machine(cores=64, memory_bytes=needed)) == count
        assert default_workers(given, Machine(cores=64, memory_bytes=needed - 1)) == count - 1
    assert default_workers(given, Machine(cores=64, memory_bytes=1)) == 1


def test_the_bounds_are_of_what_each_may_hold() -> None:
    """More workers hold more, though they share the memory for requests; fewer readers and no SQL less."""
    given = settings()
    assert total_bytes_max(given, 2) < 2 * total_bytes_max(given, 1)
    assert total_bytes_max(settings(readers=0), 4) <= total_bytes_max(given, 4) - 4 * 256 * (1 << 20)
    assert total_bytes_max(settings(sql="off"), 4) == total_bytes_max(given, 4) - 4 * 512 * (1 << 20)


def test_a_share_holds_the_largest_request() -> None:
    """However many share the memory: else a request that one gateway takes would be refused for ever. Nor is a share more than
    there is."""
    whole = settings()
    assert {share_memory(whole, count)["in_flight_bytes_max"] for count in (2, 4, 64)} == {28 << 20}
    assert share_memory(settings(in_flight_bytes_max=20 << 20), 4)["in_flight_bytes_max"] == 20 << 20


@pytest.mark.parametrize(
    "given",
    [
        {"store": "memory://a"},
        {"forwarding": "off"},
        {"kafka_listen": "127.0.0.1:9092"},
        {"auth": "on"},
        {"advertised_url": "http://10.0.0.7:8080"},
        {"host": "10.0.0.7", "insecure": True},
    ],
    ids=str,
)
def test_one_where_more_would_need_an_operator(given: dict[str, Any]) -> None:
    """A store of one process; members of a group at one gateway; ports that others must reach; a key between gateways."""
    assert default_workers(settings(**given), Machine(cores=64, memory_bytes=256 * GIB)) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"auth": "on", "cluster_key_file": "/run/key"},
        {"advertised_url": "http://10.0.0.7:8080", "worker_ports": 8090},
        {"host": "0.0.0.0", "insecure": True},
    ],
    ids=str,
)
def test_several_where_the_operator_said_it(given: dict[str, Any]) -> None:
    """With the key, with ports; and where no other machine is told an address."""
    assert default_workers(settings(**given), Machine(cores=4, memory_bytes=256 * GIB)) == 3


def test_a_worker_s_options() -> None:
    """It is one gateway with its share of memory; a name that was given gets an ending of its own, anew for each process."""
    given = settings(gateway_id="a" * 64)
    found = worker_arguments(given, 2, 1)
    options = dict(zip(found[::2], found[1::2], strict=True))
    assert options["--workers"] == "1"
    assert int(options["--answer-bytes-max"]) == given.answer_bytes_max // 2
    assert Settings.read({}, {"store": "./data", "gateway_id": options["--gateway-id"]})
    assert worker_arguments(given, 2, 1) != found
    assert "--gateway-id" not in worker_arguments(settings(), 2, 1)
