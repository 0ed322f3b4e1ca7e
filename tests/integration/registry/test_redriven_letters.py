"""Dead letters of a typed topic are redriven once the schema is right: each once, proved, and what is refused again stays."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.support.command_runs import runner
from tests.support.typed_gateway import TypedGateway, typed_gateway
from tests.support.waiting import until

DOCUMENT = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
FORGIVING = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}})


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypedGateway]:
    """One gateway for all tests here; each has its own topic and subject."""
    with typed_gateway(tmp_path_factory.mktemp("redriven")) as made:
        yield made


class Letters:
    """A typed topic, its dead letters, and a queue of them."""

    def __init__(self, typed: TypedGateway, topic: str, schema: str, partition_count: int = 1) -> None:
        self.typed, self.topic, self.letters, self.queue = typed, topic, f"{topic}.dead-letters", f"{topic}-letters"
        typed.registry.call("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
        self.register(schema)
        settings = {"value_schema": f"{topic}-value", "data_on_error": "dead-letter", "flush_ms": 0}
        typed.create(topic, partition_count=partition_count, **settings)

    def register(self, schema: str) -> None:
        """Register the next version, which may be of another type."""
        self.typed.registry.register(f"{self.topic}-value", schema, schemaType="JSON")

    def make_queue(self, **settings: Any) -> None:
        """Make the queue of the letters."""
        body = {"topics": [self.letters], "start": "earliest"} | settings
        assert self.typed.http.put(f"/v1/queues/{self.queue}", json=body).status_code == 201

    def produce(self, *values: Any, partition: int = 0) -> None:
        """Records in one request, with keys and a header each."""
        records = [
            {"key": f"k{number}", "value": value, "headers": [{"key": "h", "value": "v"}]}
            for number, value in enumerate(values)
        ]
        answer = self.typed.http.post(
            f"/v1/topics/{self.topic}/partitions/{partition}/records", json={"records": records}
        )
        assert answer.status_code == 200, answer.text

    def redrive(self, **members: Any) -> httpx.Response:
        """Redrive the letters."""
        return self.typed.http.post(f"/v1/queues/{self.queue}:redrive", json=members)

    def redriven(self, **members: Any) -> tuple[int, int]:
        """How many letters were produced, and how many were refused again."""
        answer = self.redrive(**members)
        assert answer.status_code == 200, answer.text
        return answer.json()["redriven"], answer.json()["refused"]

    def read(self, topic: str, partition: int = 0) -> list[dict[str, Any]]:
        """All records of a partition."""
        path = f"/v1/topics/{topic}/partitions/{partition}/records"
        answer = self.typed.http.get(path, params={"offset": 0, "max_records": 100_000, "max_bytes": 64 << 20})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["records"]
        return found

    def end(self) -> int:
        """The next offset of the topic's first partition."""
        return int(self.typed.http.get(f"/v1/topics/{self.topic}").json()["partitions"][0]["high_watermark"])

    def forge(self, letter: dict[str, Any], **changed: Any) -> None:
        """Write a record into the topic of letters, as any producer may."""
        members = ("key", "value", "headers")
        body = {"records": [{name: letter[name] for name in members} | changed]}
        path = f"/v1/topics/{self.letters}/partitions/0/records"
        assert self.typed.http.post(path, json=body).status_code == 200


def test_letters_go_back_once_and_what_is_refused_again_stays(typed: TypedGateway) -> None:
    """By a newer version: with key, value, headers and partition, and without what made the record a letter."""
    made = Letters(typed, "orders", DOCUMENT, partition_count=2)
    made.produce({"id": 1}, {"name": "a"}, {"id": "x"}, {"name": "b"})
    made.produce({"name": "c"}, partition=1)
    made.make_queue()
    assert made.redriven() == (0, 4)
    made.register(FORGIVING)
    assert made.redriven(max_records=1) == (1, 1)
    run = runner(typed.gateway.url)
    assert "2 dead letters redriven" in run("queue", "redrive", made.queue).output
    assert made.redriven() == (0, 1)
    back = made.read("orders")[1:]
    assert [(one["key"], json.loads(one["value"]), one["headers"]) for one in back] == [
        ("k1", {"name": "a"}, [{"key": "h", "value": "v"}]),
        ("k3", {"name": "b"}, [{"key": "h", "value": "v"}]),
    ]
    assert [json.loads(one["value"]) for one in made.read("orders", 1)] == [{"name": "c"}]
    rows = typed.table("orders").select(["data", "data_error"]).to_pylist()
    assert sorted(row["data"]["name"] or "" for row in rows) == ["", "a", "b", "c"]
    assert all(row["data_error"] is None for row in rows)
    described = typed.http.get(f"/v1/queues/{made.queue}").json()
    assert [one["lag"] for one in described["partitions"]] == [1, 0]
    assert len(made.read(made.letters)) == 3, "the letters themselves stay in their topic"


def test_only_proved_letters_go_back(typed: TypedGateway) -> None:
    """Records of other producers, changed letters and copies are refused with their place, or skipped, and not produced."""
    made = Letters(typed, "proved", DOCUMENT)
    made.produce({"name": "a"}, {"name": "b"})
    made.make_queue()
    letter = made.read(made.letters)[0]
    made.forge(letter, value='{"name": "changed"}')
    made.forge(letter)
    made.forge(
        letter, headers=[{"key": "tidelog.topic", "value": "proved"}, {"key": "tidelog.partition", "value": "0"}]
    )
    made.forge(letter, headers=[])
    made.produce({"name": "c"})
    made.register(FORGIVING)
    answer = made.redrive()
    assert answer.json()["redriven"] == 2, "those before the first without proof"
    answer = made.redrive()
    assert (answer.status_code, "partition 0, offset 2 " in answer.json()["detail"]) == (400, True)
    assert made.redriven(unproved="skip") == (1, 0)
    assert made.redriven(unproved="skip") == (0, 0)
    values = [json.loads(one["value"])["name"] for one in made.read("proved")]
    assert values == ["a", "b", "c"]
    assert made.redriven(unproved="produce") == (3, 0)


def test_a_copy_of_a_letter_that_is_settled_is_known(typed: TypedGateway) -> None:
    """The original lies before the queue's start by then."""
    made = Letters(typed, "copied", DOCUMENT)
    made.produce({"name": "a"})
    made.make_queue()
    made.register(FORGIVING)
    assert made.redriven() == (1, 0)
    made.forge(made.read(made.letters)[0])
    assert made.redrive().status_code == 400
    assert made.redriven(unproved="skip") == (0, 0)
    before = {"before": [{"partition": 0, "offset": 1}]}
    assert typed.http.post(f"/v1/topics/{made.letters}:delete-records", json=before).status_code == 200
    assert made.redrive().status_code == 400
    assert len(made.read("copied")) == 1


def test_letters_that_a_worker_holds_are_left_to_it(typed: TypedGateway) -> None:
    """Until it gives them back."""
    made = Letters(typed, "held", DOCUMENT)
    made.produce({"name": "a"}, {"name": "b"})
    made.make_queue()
    made.register(FORGIVING)
    path = f"/v1/queues/{made.queue}"
    (one,) = typed.http.post(f"{path}:receive", json={"max_records": 1}).json()["records"]
    assert made.redriven() == (1, 0)
    settled = {name: one[name] for name in ("topic", "partition", "offset", "lease")} | {"action": "release"}
    assert typed.http.post(f"{path}:settle", json={"settlements": [settled]}).status_code == 200
    assert made.redriven() == (1, 0)
    assert len(made.read("held")) == 2


def test_killed_amid_a_redrive_each_letter_goes_back_once(typed: TypedGateway) -> None:
    """Letters whose transaction was decided are finished, the others are redriven."""
    made = Letters(typed, "killed", DOCUMENT)
    count = 6_000
    for first in range(0, count, 2_000):
        made.produce(*({"name": f"n{number}"} for number in range(first, first + 2_000)))
    made.make_queue(lock_ms=1_000)
    made.register(FORGIVING)

    def ask() -> None:
        with suppress(httpx.HTTPError):
            made.redrive()

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: made.end() > 0)
    typed.gateway.kill()
    asking.join()
    typed.gateway.start()
    back = made.end()
    until(lambda: made.redrive().status_code == 200, 90)
    assert 0 < back < count, "the gateway was killed amid it"
    names = [json.loads(one["value"])["name"] for one in made.read("killed")]
    assert sorted(names) == sorted(f"n{number}" for number in range(count))
    assert made.redriven() == (0, 0)
