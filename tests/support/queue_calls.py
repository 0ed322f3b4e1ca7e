"""A queue as a client of the HTTP API uses it, for the conformance suite. Nothing here knows the code."""

from __future__ import annotations

import secrets
from typing import Any

import httpx

from tests.support.http_api import Api, Json
from tests.support.waiting import eventually, until

SOON_S = 8.0
SOON_MS = 8_000
"""What must happen within 5 s, and then some."""


class Queue:
    """A queue of its own topics."""

    def __init__(self, api: Api, partition_count: int = 1, **settings: Any) -> None:
        self.api = api
        self.name = f"queue-{secrets.token_hex(6)}"
        self.topic = api.topic(partition_count)
        self.settings = {"topics": [self.topic], "start": "earliest"} | settings
        made = self.put(**self.settings)
        assert made.status_code == 201, made.text

    def put(self, **settings: Any) -> httpx.Response:
        return self.api.http.put(f"/v1/queues/{self.name}", json=settings)

    def call(self, verb: str, body: Json, **headers: str) -> httpx.Response:
        return self.api.http.post(f"/v1/queues/{self.name}:{verb}", json=body, headers=headers)

    def receive(self, **wish: Any) -> list[Json]:
        answer = self.call("receive", wish)
        assert answer.status_code == 200, answer.text
        found: list[Json] = answer.json()["records"]
        return found

    def settle(self, *records: Json, action: str = "accept", **more: Any) -> list[Json]:
        answer = self.call("settle", {"settlements": [settlement(one, action, **more) for one in records]})
        assert answer.status_code == 200, answer.text
        found: list[Json] = answer.json()["results"]
        return found

    def produce(self, *values: str, **record: Any) -> None:
        records = [{"value": value, **record} for value in values]
        assert self.api.produce(self.topic, *records).status_code == 200

    def describe(self) -> Json:
        answer = self.api.http.get(f"/v1/queues/{self.name}")
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def stands(self, **expected: int) -> None:
        """Its only partition is described so."""
        found = self.partition()
        assert {name: found[name] for name in expected} == expected

    def becomes(self, **expected: int) -> None:
        """Its only partition is described so, soon."""
        eventually(lambda: expected.items() <= self.partition().items(), SOON_S)
        self.stands(**expected)

    def partition(self) -> Json:
        (found,) = self.describe()["partitions"]
        one: Json = found
        return one


def settlement(record: Json, action: str, **more: Any) -> Json:
    place = {name: record[name] for name in ("topic", "partition", "offset", "lease")}
    return {**place, "action": action, **more}


def values(records: list[Json]) -> list[str]:
    return [record["value"] for record in records]


def dead(api: Api, topic: str, count: int = 1) -> list[Json]:
    """The records of a dead letter topic, once there are so many."""
    until(lambda: len(api.records(topic)) >= count, SOON_S)
    return api.records(topic)


def headers(record: Json) -> dict[str, str]:
    return {header["key"]: header["value"] for header in record["headers"]}


def begun(api: Api, **more: Any) -> str:
    """The id of a new transaction."""
    answer = api.http.post("/v1/transactions", json={"transactional_id": f"t-{secrets.token_hex(6)}", **more})
    found: str = answer.json()["transaction_id"]
    return found
