"""Programs without the SDK that keep offsets of their own: they say which topic these belong to, and skip nothing of another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway_process import GatewayProcess, running_gateway

EVENTS = {"accept": "text/event-stream"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("by-id")
    with running_gateway(directory / "store", directory / "gateway.log") as started:
        yield started


def made(gateway: GatewayProcess, topic: str, kind: str, count: int) -> str:
    """The topic made, or made anew, with so many records; its id."""
    gateway.http.delete(f"/v1/topics/{topic}")
    answer = gateway.http.post("/v1/topics", json={"name": topic, "config": {"flush.ms": 0}})
    records = {"records": [{"value": f"{kind}-{number}"} for number in range(count)]}
    assert gateway.http.post(f"/v1/topics/{topic}/partitions/0/records", json=records).status_code == 200
    return str(answer.json()["topic_id"])


def events(gateway: GatewayProcess, path: str, count: int, last: str | None = None) -> list[dict[str, Any]]:
    """The first events of a stream, with their data decoded."""
    headers = EVENTS if last is None else EVENTS | {"last-event-id": last}
    found: list[dict[str, Any]] = []
    with gateway.http.stream("GET", path, headers=headers, timeout=20) as stream:
        assert stream.status_code == 200, stream.read()
        current: dict[str, Any] = {}
        for line in stream.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                current[name] = json.loads(value) if name == "data" else value
                continue
            if "event" in current:
                found.append(current)
            current = {}
            if len(found) == count:
                return found
    raise AssertionError(found)


@pytest.mark.parametrize("count", [2, 9])
def test_a_stream_that_is_resumed_begins_at_the_start_of_another_topic(gateway: GatewayProcess, count: int) -> None:
    """Its ids name the topic. The first event says that it is another one, and from then on ids are of that."""
    topic = f"stream-{count}"
    old = made(gateway, topic, "old", 5)
    path = f"/v1/topics/{topic}/partitions/0/records?offset=earliest&topic_id={old}"
    read = events(gateway, path, 5)
    assert [event["id"] for event in read] == [f"{number}@{old}" for number in range(1, 6)]
    assert [event["id"] for event in events(gateway, path, 2, last=f"3@{old}")] == [f"4@{old}", f"5@{old}"]
    new = made(gateway, topic, "new", count)
    told, *rest = events(gateway, path, 1 + count, last=read[-1]["id"])
    assert (told["event"], told["data"]) == ("topic_recreated", {"topic_id": new})
    assert [(event["id"], event["data"]["value"]) for event in rest] == [
        (f"{number + 1}@{new}", f"new-{number}") for number in range(count)
    ]
    (last,) = events(gateway, path, 1, last=f"{count - 1}@{new}")
    assert (last["event"], last["id"]) == ("record", f"{count}@{new}")


def test_a_stream_of_whatever_has_the_name_has_plain_ids(gateway: GatewayProcess) -> None:
    """As the contract has it; an offset of a topic that is named in the query counts as an id does."""
    topic = "plain"
    old = made(gateway, topic, "old", 5)
    path = f"/v1/topics/{topic}/partitions/0/records"
    assert [event["id"] for event in events(gateway, f"{path}?offset=3", 2)] == ["4", "5"]
    made(gateway, topic, "new", 5)
    assert [event["data"]["value"] for event in events(gateway, f"{path}?offset=3", 2)] == ["new-3", "new-4"]
    told, first = events(gateway, f"{path}?offset=3&topic_id={old}", 2)
    assert (told["event"], first["data"]["value"]) == ("topic_recreated", "new-0")
    for wrong in ("3@", "@x", "x@y", "-1@y", f"{2**63}@y"):
        answer = gateway.http.get(f"{path}?offset=0", headers=EVENTS | {"last-event-id": wrong})
        assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_REQUEST")


def test_a_filtered_stream_s_pings_name_the_topic(gateway: GatewayProcess) -> None:
    """A position that a filter moves is one of that topic, too."""
    topic = "filtered"
    made(gateway, topic, "old", 3)
    old = made(gateway, topic, "old", 3)
    path = f"/v1/topics/{topic}/partitions/0/records?offset=earliest&topic_id={old}&key=none"
    with gateway.http.stream("GET", path, headers=EVENTS, timeout=30) as stream:
        assert next(line for line in stream.iter_lines() if line.startswith("id")) == f"id: 3@{old}"


@pytest.mark.parametrize("wait_ms", [0, 5_000])
def test_fetches_read_another_topic_from_its_start(gateway: GatewayProcess, wait_ms: int) -> None:
    """One partition or several, waiting or not: the answer tells which topic it is of."""
    topic = f"fetched-{wait_ms}"
    old = made(gateway, topic, "old", 5)
    path = f"/v1/topics/{topic}/partitions/0/records"

    def one(offset: int, topic_id: str) -> Any:
        return gateway.http.get(path, params={"offset": offset, "topic_id": topic_id, "max_wait_ms": wait_ms}).json()

    def many(offset: int, topic_id: str) -> Any:
        partitions = [{"topic": topic, "partition": 0, "offset": offset, "topic_id": topic_id}]
        answer = gateway.http.post("/v1/fetch", json={"partitions": partitions, "max_wait_ms": wait_ms}).json()
        (part,) = answer["partitions"]
        return part

    for read in (one, many):
        assert [record["offset"] for record in read(3, old)["records"]] == [3, 4]
    for count in (5, 2):
        new = made(gateway, topic, "new", count)
        for read in (one, many):
            found = read(5, old)
            assert [record["value"] for record in found["records"]] == [f"new-{number}" for number in range(count)]
            assert found["topic_id"] == new


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("count", [5, 2])
def test_positions_of_a_poll_belong_to_their_topic(gateway: GatewayProcess, reset: str, count: int) -> None:
    """One in a topic that is no more is forgotten: the new one is read from its start, whatever the reset policy."""
    topic, group = f"polled-{reset}-{count}", f"g-{reset}-{count}"
    old = made(gateway, topic, "old", 5)
    joined = gateway.http.post(f"/v1/groups/{group}/poll", json={"topics": [topic], "auto_offset_reset": reset}).json()
    member = {"member_id": joined["member_id"], "generation": joined["generation"], "auto_offset_reset": reset}

    def poll(topic_id: str, offset: int) -> Any:
        positions = [{"topic": topic, "partition": 0, "offset": offset, "topic_id": topic_id}]
        for _ in range(20):
            answer = gateway.http.post(f"/v1/groups/{group}/poll", json=member | {"positions": positions}).json()
            member["generation"] = answer["generation"]
            if answer["partitions"]:
                (part,) = answer["partitions"]
                return part
        raise AssertionError(answer)

    assert [record["value"] for record in poll(old, 3)["records"]] == ["old-3", "old-4"]
    new = made(gateway, topic, "new", count)
    found = poll(old, 5)
    assert [record["value"] for record in found["records"]] == [f"new-{number}" for number in range(count)]
    assert found["topic_id"] == new
    assert poll(new, 1)["records"][0]["value"] == "new-1"
