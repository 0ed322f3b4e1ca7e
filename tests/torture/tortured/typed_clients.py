"""Producers of typed topics: documents over HTTP, numbered, in transactions and for later; Confluent's Avro serializer by Kafka's
protocol; and who registers further versions meanwhile."""

from __future__ import annotations

import base64
import json
import random
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import httpx
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.torture.tortured.typed_history import Outcome, Sent, TypedHistory

SUBJECT: Final = "torture-value"
KEYS: Final = 20
RECORDS_MAX: Final = 5
_FINAL: Final = ("INVALID_RECORD", "INVALID_CONFIG")


def schema_of(fields: Sequence[str]) -> str:
    """An Avro schema with a number, and optional texts."""
    optional = [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
    members = [{"name": "number", "type": "long"}, *optional]
    return json.dumps({"type": "record", "name": "Order", "fields": members})


class Client:
    """One client, which asks any gateway and asks again. ``calm``: faults are over, so each call must end."""

    def __init__(self, name: str, urls: Sequence[str], history: TypedHistory, stopping: threading.Event, seed: int):
        self.name, self.urls, self.history, self.stopping = name, urls, history, stopping
        self.rng = random.Random(f"{seed}-{name}")
        self._http = httpx.Client(timeout=10, trust_env=False)

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The answer of some gateway; None: there is none, so it is not known what happened."""
        try:
            return self._http.request(method, self.rng.choice(self.urls) + path, json=body, headers=dict(headers or {}))
        except httpx.HTTPError:
            return None

    def insist(self, method: str, path: str, body: Any = None) -> Any:
        """The body of the answer, as soon as a gateway gives one; twice does no harm."""
        while not self.stopping.is_set():
            answer = self.call(method, path, body)
            if answer is not None and answer.is_success:
                return answer.json()
            self.stopping.wait(0.3)
        return None

    def pause(self, seconds: float) -> None:
        """Wait about so long."""
        self.stopping.wait(self.rng.uniform(0.2, 1.8) * seconds)

    def members(self) -> tuple[int, str, dict[str, Any]]:
        """A schema that is registered, and members of a value of it."""
        schema_id, schema = self.rng.choice(self.history.newest(6))
        fields = [one["name"] for one in json.loads(schema)["fields"][1:]]
        number = self.history.next_number()
        chosen = [name for name in fields if self.rng.random() < 0.5]
        return schema_id, schema, {"number": number, **dict.fromkeys(chosen, f"text-{number}")}

    def value(self, *, is_unfit: bool) -> tuple[int, bytes, dict[str, Any] | None]:
        """Number, bytes and members of a document, or of something that no schema allows."""
        _, _, members = self.members()
        number = members["number"]
        if not is_unfit:
            return number, json.dumps(members).encode(), members
        wrong = ({"number": f"{number}"}, {"number": number, "unknown": 1}, {"other": number})
        texts = [*(json.dumps(one).encode() for one in wrong), b"garbage-%d" % number, b"\0\0\x7f\0\0%d" % number]
        return number, self.rng.choice(texts), None


class Registrar(Client):
    """Registers a further version every few seconds."""

    def run(self, seconds: float) -> None:
        """Until stopped."""
        fields: list[str] = []
        while not self.stopping.is_set():
            schema = schema_of(fields)
            made = self.insist("POST", f"/registry/subjects/{SUBJECT}/versions", {"schema": schema})
            if made is not None:
                self.history.registered(made["id"], schema)
                fields.append(f"n{len(fields)}")
            self.pause(seconds)


class HttpProducer(Client):
    """Sends documents to a topic: numbered, for later, or in transactions, some of them unfit."""

    def run(self, topic: str, kind: str, pace_seconds: float) -> None:
        """Until stopped. ``kind``: ``numbered``, ``later`` or ``transaction``."""
        while not self.stopping.is_set():
            is_unfit = self.rng.random() < 0.2
            values = [self.value(is_unfit=is_unfit) for _ in range(self.rng.randrange(1, RECORDS_MAX))]
            records = [
                {"value_base64": base64.b64encode(value).decode(), "key": f"{self.rng.randrange(KEYS)}"}
                for _, value, _ in values
            ]
            match kind:
                case "numbered":
                    outcome = self._numbered(topic, records, is_unfit=is_unfit)
                case "later":
                    for record in records:
                        record["deliver_after_ms"] = self.rng.choice((500, 4_000))  # type: ignore[assignment]
                    outcome = self._numbered(topic, records, is_unfit=is_unfit)
                case _:
                    outcome = self._in_transaction(topic, records)
            self.history.add(
                *(
                    Sent(number=number, topic=topic, kind=kind, value=value, members=members, outcome=outcome)
                    for number, value, members in values
                )
            )
            self.pause(pace_seconds)

    def _numbered(self, topic: str, records: list[dict[str, Any]], *, is_unfit: bool) -> Outcome:
        """A producer id for each request, which is repeated until it is answered."""
        producer = self.insist("POST", "/v1/producers", {})
        if producer is None:
            return "refused"
        headers = {"Tidelog-Producer-Id": producer["producer_id"], "Tidelog-Producer-Epoch": str(producer["epoch"])}
        headers["Tidelog-Producer-Sequence"] = "0"
        is_doubtful = False
        while True:
            answer = self.call("POST", f"/v1/topics/{topic}/records", {"records": records}, headers)
            if answer is not None and answer.is_success:
                return "acknowledged"
            if answer is not None and answer.json()["error_code"] in _FINAL:
                if not is_unfit:
                    self.history.refused_wrongly.append(f"{topic}: {answer.text}")
                return "refused"
            is_doubtful = is_doubtful or answer is None or answer.json()["may_have_happened"]
            if self.stopping.wait(0.3):
                return "unknown" if is_doubtful else "refused"

    def _in_transaction(self, topic: str, records: list[dict[str, Any]]) -> Outcome:
        begun = self.insist("POST", "/v1/transactions", {"transactional_id": self.name})
        if begun is None:
            return "refused"
        path = f"/v1/transactions/{begun['transaction_id']}"
        headers = {"Tidelog-Transaction": begun["transaction_id"]}
        answer = self.call("POST", f"/v1/topics/{topic}/records", {"records": records}, headers)
        is_staged = answer is not None and answer.is_success
        if not is_staged or self.rng.random() < 0.2:
            self.call("POST", f"{path}:abort")
            return "refused"
        while not self.stopping.is_set():
            answer = self.call("POST", f"{path}:commit")
            if answer is not None and answer.is_success:
                return "acknowledged" if answer.json()["state"] == "committed" else "refused"
            if answer is not None and not answer.json()["may_have_happened"] and answer.status_code in {404, 409}:
                return "refused"
            self.stopping.wait(0.3)
        return "unknown"


class KafkaProducer(Client):
    """Sends values of Confluent's Avro serializer, each by a schema that is registered."""

    def run(self, topic: str, bootstrap: str, pace_seconds: float) -> None:
        """Until stopped."""
        producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 60_000, "log_level": 0}
        )
        context = SerializationContext(topic, MessageField.VALUE)
        while not self.stopping.is_set():
            schema_id, schema, members = self.members()
            settings = {"auto.register.schemas": False, "subject.name.strategy": lambda *_: SUBJECT}
            value: bytes | None = None
            with suppress(Exception):  # the registry does not answer: the next one then
                registry = {"url": f"{self.rng.choice(self.urls)}/registry", "timeout": 10}
                with SchemaRegistryClient(registry) as client:
                    value = AvroSerializer(client, schema, conf=settings)(members, context)
            if value is not None:
                assert int.from_bytes(value[1:5], "big") == schema_id
                self._send(producer, topic, value, members)
            self.pause(pace_seconds)
        producer.flush(90)

    def _send(self, producer: Producer, topic: str, value: bytes, members: dict[str, Any]) -> None:
        def told(error: KafkaError | None, _message: object) -> None:
            outcome: Outcome = "acknowledged"
            if error is not None:
                outcome = "unknown"
                if error.code() == KafkaError.INVALID_RECORD:
                    outcome = "refused"
                    self.history.refused_wrongly.append(f"{topic}: {value!r}")
            self.history.add(
                Sent(number=members["number"], topic=topic, kind="kafka", value=value, members=members, outcome=outcome)
            )

        with suppress(BufferError, KafkaException):
            producer.produce(topic, value, key=f"{self.rng.randrange(KEYS)}", on_delivery=told)
        producer.poll(0)
