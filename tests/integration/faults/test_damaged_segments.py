"""A segment deleted or damaged by hand: its readers are told which, other clients go on, and verifying finds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from log_format.stores import open_store
from tests.support.attacks.insiders import HOSTILE_PATHS, name_as_segment, segments
from tests.support.gateway_process import GatewayProcess, StartGateway


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "deleted": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "bit-in-records": lambda path: flip(path, 60),
    "bit-in-footer": lambda path: flip(path, -40),
    "other-bytes": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_segment(gateway: GatewayProcess, damage: str) -> None:
    """500 ``CORRUPT_SEGMENT`` with its name for exactly the records in it; the rest of the partition, other partitions and
    writing go on.
    """
    from log_format.inspection.verify import verify_topic

    topic = gateway.topic(damage, 2)
    assert gateway.produce(topic, "sound", partition=0).status_code == 200
    before = segments(Path(gateway.store), topic)
    assert gateway.produce(topic, *(f"lost-{number}" for number in range(50)), partition=0).status_code == 200
    (segment,) = segments(Path(gateway.store), topic) - before
    assert gateway.produce(topic, "other", partition=1).status_code == 200
    store = open_store(str(Path(gateway.store).parent / "store"))
    assert verify_topic(store, topic).ok
    DAMAGES[damage](segment)

    answer = gateway.fetch(topic, 0, offset=1)
    problem = answer.json()
    assert (answer.status_code, problem["error_code"]) == (500, "CORRUPT_SEGMENT"), answer.text
    assert segment.name in problem["segment"]
    assert (problem["retryable"], problem["may_have_happened"]) == (False, False)
    assert gateway.read(topic, 1) == [(0, "other")]
    assert [record["value"] for record in gateway.fetch(topic, 0, offset=0).json()["records"]] == ["sound"]
    assert gateway.produce(topic, "new", partition=0).json()["partitions"][0]["base_offset"] == 51
    assert [record["value"] for record in gateway.fetch(topic, 0, offset=51).json()["records"]] == ["new"]

    wanted = [{"topic": topic, "partition": partition, "offset": offset} for partition, offset in ((0, 1), (1, 0))]
    several = gateway.http.post("/v1/fetch", json={"partitions": wanted, "max_wait_ms": 5000})
    assert several.status_code == 200
    broken, other = several.json()["partitions"]
    assert (broken["topic"], broken["partition"]) == (topic, 0)
    assert (broken["error"]["error_code"], broken["error"]["status"]) == ("CORRUPT_SEGMENT", 500)
    assert segment.name in broken["error"]["segment"]
    assert [record["value"] for record in other["records"]] == ["other"]

    report = verify_topic(store, topic)
    assert not report.ok
    assert any(segment.name in str(problem) for problem in report.problems), report.problems


def test_a_commit_that_names_what_is_no_segment(gateway: GatewayProcess, start_gateway: StartGateway) -> None:
    """Paths that lead out of the table: 500 ``CORRUPT_SEGMENT`` with the segment, and the verifier says so; never another
    topic's records, never ``INTERNAL``."""
    from log_format.inspection.verify import verify_topic

    victim = gateway.topic("victim")
    assert gateway.produce(victim, "secret").status_code == 200
    for name, path in HOSTILE_PATHS.items():
        gateway.topic(name)
        assert gateway.produce(name, "mine").status_code == 200
        name_as_segment(Path(gateway.store), name, path, victim)
    other = start_gateway(str(Path(gateway.store).parent / "store"), "--forwarding", "off")
    for name in HOSTILE_PATHS:
        answers = [other.fetch(name), other.produce(name, "more")]
        found = {(each.status_code, each.json().get("error_code"), "segment" in each.json()) for each in answers}
        assert found == {(500, "CORRUPT_SEGMENT", True)}, (name, [answer.text[:500] for answer in answers])
        assert all(len(answer.content) < 2_000 for answer in answers)
        report = verify_topic(open_store(str(Path(gateway.store).parent / "store")), name)
        assert any("as a segment" in str(problem) for problem in report.problems), report.problems
    assert other.read(victim) == [(0, "secret")]
