"""``data.on.error=dead-letter``: what is not of its schema goes to the topic's dead letters, and the rest is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Producer

import tidelog
from tests.support.command_runs import runner
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.registry import Registry, record

ORDER = record("Order", id="long")


class Lettered:
    """A gateway with typed topics whose wrong records become dead letters."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self.gateway = gateway
        self.http = httpx.Client(base_url=gateway.url, timeout=60, trust_env=False)
        registry = Registry(f"{gateway.url}/registry")
        registry.register("orders-value", ORDER)
        registry.close()

    def create(self, topic: str, **config: Any) -> None:
        """A topic of one partition; names of settings have underscores for dots."""
        settings = {"value.schema": "orders-value", "data.on.error": "dead-letter"}
        settings |= {name.replace("_", "."): value for name, value in config.items()}
        answer = self.http.post("/v1/topics", json={"name": topic, "config": settings})
        assert answer.status_code == 201, answer.text

    def produce(self, topic: str, *values: Any, **headers: str) -> httpx.Response:
        """Append JSON values in one request, with keys and a header each."""
        records = [
            {"key": f"k{number}", "value": value, "headers": [{"key": "h", "value": "v"}]}
            for number, value in enumerate(values)
        ]
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.http.post(f"/v1/topics/{topic}/records", json={"records": records}, headers=named)

    def read(self, topic: str) -> list[dict[str, Any]]:
        """All records of the topic's only partition; none if there is no such topic."""
        answer = self.http.get(f"/v1/topics/{topic}/partitions/0/records", params={"offset": 0, "max_records": 1000})
        if answer.status_code == 404:
            return []
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["records"]
        return found

    def values(self, topic: str) -> list[Any]:
        """The values of all records, documents as objects."""
        texts = [record["value"] for record in self.read(topic)]
        return [json.loads(text) if text.startswith("{") else text for text in texts]

    def producer(self) -> dict[str, str]:
        """The headers of a new idempotent producer, without its number."""
        made = self.http.post("/v1/producers", json={}).json()
        return {"Tidelog_Producer_Id": made["producer_id"], "Tidelog_Producer_Epoch": str(made.get("epoch", 0))}


@pytest.fixture(scope="module")
def lettered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lettered]:
    """One gateway for all tests here; each has its own topics."""
    folder = tmp_path_factory.mktemp("lettered")
    with kafka_gateway(folder / "store", folder / "log") as gateway:
        made = Lettered(gateway)
        yield made
        made.http.close()


def test_a_wrong_record_goes_to_the_dead_letters_and_the_rest_is_stored(lettered: Lettered) -> None:
    """The answer says which and where; the letter has the record's key, value and headers, and why it is one."""
    lettered.create("orders")
    answer = lettered.produce("orders", {"id": 1}, {"id": "x"}, {"id": 2}, "no order")
    assert answer.status_code == 200, answer.text
    produced = answer.json()
    assert produced["partitions"] == [{"partition": 0, "base_offset": 0, "last_offset": 1, "count": 2}]
    letters = produced["dead_letters"]
    assert [(one["index"], one["topic"], one["partition"], one["offset"]) for one in letters] == [
        (1, "orders.dead-letters", 0, 0),
        (3, "orders.dead-letters", 0, 1),
    ]
    assert letters[0]["reason"].startswith("value.id: ")
    assert lettered.values("orders") == [{"id": 1}, {"id": 2}]
    first, second = lettered.read("orders.dead-letters")
    assert (first["key"], json.loads(first["value"]), second["value"]) == ("k1", {"id": "x"}, "no order")
    headers = {header["key"]: header["value"] for header in first["headers"]}
    assert headers["h"] == "v"
    assert headers["tidelog.reason"] == letters[0]["reason"]
    assert (headers["tidelog.topic"], headers["tidelog.partition"]) == ("orders", "0")
    config = lettered.http.get("/v1/topics/orders.dead-letters").json()["config"]
    assert config["retention.ms"] == -1
    assert "value.schema" not in config
    right = lettered.produce("orders", {"id": 3}).json()
    assert "dead_letters" not in right


def test_a_request_of_letters_alone_is_answered(lettered: Lettered) -> None:
    """Nothing is appended to the topic, and nothing is refused."""
    lettered.create("alone")
    answer = lettered.produce("alone", "x", "y")
    assert (answer.status_code, answer.json()["partitions"]) == (200, [])
    assert [one["offset"] for one in answer.json()["dead_letters"]] == [0, 1]
    assert (lettered.values("alone"), lettered.values("alone.dead-letters")) == ([], ["x", "y"])


def test_a_repeat_puts_no_letter_twice(lettered: Lettered) -> None:
    """A numbered request that was stored is answered as a duplicate, letters named; the next number goes on."""
    lettered.create("repeats")
    stamp = lettered.producer()
    requests: list[list[Any]] = [[{"id": 1}, "x"], ["y"], [{"id": 2}]]
    for number, values in enumerate(requests):
        first = lettered.produce("repeats", *values, **stamp, Tidelog_Producer_Sequence=str(number))
        again = lettered.produce("repeats", *values, **stamp, Tidelog_Producer_Sequence=str(number))
        assert (first.status_code, again.status_code) == (200, 200), (first.text, again.text)
        assert (first.json()["duplicate"], again.json()["duplicate"]) == (False, True)
        assert again.json()["partitions"] == first.json()["partitions"]
        said = [(one["index"], one["reason"]) for one in first.json().get("dead_letters", [])]
        assert [(one["index"], one["reason"]) for one in again.json().get("dead_letters", [])] == said
    assert lettered.values("repeats") == [{"id": 1}, {"id": 2}]
    assert lettered.values("repeats.dead-letters") == ["x", "y"]


def test_a_refused_request_puts_no_letter(lettered: Lettered) -> None:
    """A number that others must come before, and a record that the topic's other settings refuse, are found before."""
    lettered.create("refused", max_message_bytes=100)
    stamp = lettered.producer()
    ahead = lettered.produce("refused", {"id": 1}, "x", **stamp, Tidelog_Producer_Sequence="1")
    assert (ahead.status_code, ahead.json()["error_code"]) == (409, "SEQUENCE_OUT_OF_ORDER")
    assert lettered.produce("refused", "x" * 200).json()["error_code"] == "RECORD_TOO_LARGE"
    assert lettered.read("refused.dead-letters") == []


def test_a_topic_that_can_take_no_letters_refuses_the_request(lettered: Lettered) -> None:
    """A topic of that name with a schema or compaction: nothing is stored, and the answer says what it must be."""
    lettered.create("full")
    lettered.create("full.dead-letters", data_on_error="reject")
    answer = lettered.produce("full", {"id": 1}, "x")
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_CONFIG")
    assert "full.dead-letters" in answer.json()["detail"]
    assert lettered.values("full") == []


def test_what_must_keep_its_offset_is_marked(lettered: Lettered) -> None:
    """Kafka's clients, transactions and expected offsets count every record: those stay, with the reason."""
    lettered.create("kept")
    producer = Producer({"bootstrap.servers": lettered.gateway.kafka, "enable.idempotence": True})
    found: list[tuple[KafkaError | None, int | None]] = []
    for value in (b'{"id":1}', b"no order", b'{"id":2}'):
        producer.produce("kept", value, on_delivery=lambda error, message: found.append((error, message.offset())))
    assert producer.flush(30) == 0
    assert found == [(None, 0), (None, 1), (None, 2)]
    body = {"records": [{"value": "x"}, {"value": {"id": 3}}]}
    exact = lettered.http.post(
        "/v1/topics/kept/partitions/0/records", json=body, headers={"Tidelog-Expected-Offset": "3"}
    )
    assert (exact.status_code, exact.json()["partitions"][0]["count"]) == (200, 2)
    assert "dead_letters" not in exact.json()
    assert lettered.values("kept") == [{"id": 1}, "no order", {"id": 2}, "x", {"id": 3}]
    assert lettered.read("kept.dead-letters") == []


def test_the_sdk_tells_each_record_its_place(lettered: Lettered) -> None:
    """Records behind a letter have their own offsets, a letter its topic and reason; tables and numbered requests too."""
    lettered.create("sdk")
    values = ['{"id":1}', "x", '{"id":2}', "y", '{"id":3}']
    with tidelog.Producer(lettered.gateway.url) as producer:
        places = [future.result() for future in [producer.send("sdk", value.encode()) for value in values]]
        assert [(one.topic, one.offset) for one in places if one.dead_letter_reason is None] == [
            ("sdk", 0),
            ("sdk", 1),
            ("sdk", 2),
        ]
        letters = [one for one in places if one.dead_letter_reason is not None]
        assert [(one.topic, one.offset) for one in letters] == [("sdk.dead-letters", 0), ("sdk.dead-letters", 1)]
        table = pa.table({"value": pa.array([value.encode() for value in values], pa.binary())})
        result = producer.send_table("sdk", table).result()
    assert (result.count, [one.index for one in result.dead_letters]) == (3, [1, 3])
    assert len(lettered.values("sdk")) == 6
    run = runner(lettered.gateway.url)
    said = run("produce", "sdk", "--json", given="\n".join(values) + "\n")
    assert said.exit_code == 0, said.stderr
    assert json.loads(said.stdout)["dead_letter_count"] == 2


def test_letters_of_a_topic_that_leaves_values_out_have_theirs(lettered: Lettered) -> None:
    """The values of the other records are rendered from their columns; a letter has what was sent."""
    lettered.create("left-out", value_keep="false")
    answer = lettered.produce("left-out", {"id": 1}, "x", {"id": 2})
    assert [one["index"] for one in answer.json()["dead_letters"]] == [1]
    assert lettered.values("left-out") == [{"id": 1}, {"id": 2}]
    assert lettered.values("left-out.dead-letters") == ["x"]
    sink = pa.BufferOutputStream()
    table = pa.table({"value": pa.array([b'{"id":3}', b"y", b'{"id":4}'], pa.binary())})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    sent = lettered.http.post("/v1/topics/left-out/records", content=sink.getvalue().to_pybytes(), headers=headers)
    assert [one["index"] for one in sent.json()["dead_letters"]] == [1]
    assert lettered.values("left-out") == [{"id": number} for number in (1, 2, 3, 4)]
    assert lettered.values("left-out.dead-letters") == ["x", "y"]
