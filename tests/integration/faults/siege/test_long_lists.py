"""A long list from a client costs the event loop little, and takes no memory that the gateway does not count."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.attacks.lists import PARTITIONS, wanted, wide_pattern
from tests.support.gateway_process import StartGateway
from tests.support.siege import besiege


def test_a_fetch_of_one_partition_many_times_is_refused_and_costs_little(
    tmp_path: Path, start_gateway: StartGateway
) -> None:
    """The gateway refuses a partition that is named twice, by its pointer; no other client waits for it."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("t")
    gateway.produce("t", "value")
    answers: list[Any] = []
    besiege(gateway, lambda: answers.append(gateway.http.post("/v1/fetch", json=wanted("t", [0] * PARTITIONS))))
    answer = answers[0]
    assert answer.status_code == 400, answer.text[:300]
    assert answer.json()["error_code"] == "INVALID_REQUEST"
    assert answer.json()["errors"][0]["where"] == "/partitions/1/partition"


def test_a_fetch_of_ten_thousand_partitions_stalls_nobody(tmp_path: Path, start_gateway: StartGateway) -> None:
    """All partitions of a topic at once, some of them failing, by several readers: all are answered, and /healthz is not late."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("many", PARTITIONS)
    gateway.produce("many", "value", partition=7)
    body = wanted("many", list(range(1, PARTITIONS + 1)))

    def fetch(_: int) -> None:
        answer = gateway.http.post("/v1/fetch", json=body | {"max_wait_ms": 100, "min_bytes": 1 << 40})
        assert answer.status_code == 200, answer.text[:300]
        parts = answer.json()["partitions"]
        assert len(parts) == PARTITIONS
        assert [record["value"] for record in parts[6]["records"]] == ["value"]
        assert parts[-1]["error"]["error_code"] == "UNKNOWN_PARTITION"

    def attack() -> None:
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(fetch, range(3)))

    besiege(gateway, attack)


def test_polls_that_wait_for_many_partitions_hold_a_bounded_amount(tmp_path: Path, start_gateway: StartGateway) -> None:
    """Each of many long polls names all partitions of a topic: what does not fit is refused (503), and memory keeps its bound."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("many", PARTITIONS)
    body = wanted("many", list(range(PARTITIONS))) | {"max_wait_ms": 500}

    def attack() -> None:
        with ThreadPoolExecutor(12) as threads:
            answers = list(threads.map(lambda _: gateway.http.post("/v1/fetch", json=body), range(12)))
        codes = {answer.status_code for answer in answers}
        assert codes <= {200, 503}, codes

    besiege(gateway, attack)


def test_a_pattern_of_wide_ranges_stalls_nobody(tmp_path: Path, start_gateway: StartGateway) -> None:
    """What costs most to compile, and what is refused only after compiling: neither runs on the event loop."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("t")
    number = count()

    def attack() -> None:
        wide = wide_pattern(next(number))
        for pattern, status in ((wide, 201), (wide + "(", 400)):
            answer = gateway.http.post("/v1/groups/g/members", json={"topic_pattern": pattern})
            assert answer.status_code == status, answer.text[:300]

    besiege(gateway, attack)


def test_a_group_of_ten_thousand_partitions_stalls_nobody(tmp_path: Path, start_gateway: StartGateway) -> None:
    """One member with all of them joins, polls, commits, leaves; then its offsets are moved and its lag is looked at."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("many", PARTITIONS)
    http = gateway.http

    def attack() -> None:
        polled = http.post("/v1/groups/g/poll", json={"topics": ["many"]})
        assert polled.status_code == 200, polled.text[:300]
        assert len(polled.json()["partitions"]) == PARTITIONS
        member = {name: polled.json()[name] for name in ("member_id", "generation")}
        offsets = [{"topic": "many", "partition": one, "offset": 0} for one in range(PARTITIONS)]
        again = http.post("/v1/groups/g/poll", json=member | {"commit": offsets, "positions": offsets})
        assert again.status_code == 200, again.text[:300]
        assert http.delete(f"/v1/groups/g/members/{member['member_id']}").status_code == 204
        assert http.put("/v1/groups/g/offsets", json={"offsets": offsets}).status_code == 200
        assert http.post("/v1/groups/g/offsets:reset", json={"topics": ["many"], "to": "latest"}).status_code == 200
        assert http.get("/v1/groups/g/lag").json()["total"] == 0

    besiege(gateway, attack)
