"""Typed topics by several gateways: what one of them registered, accepted or scheduled is judged rightly by the others."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.support.gateway_process import GatewayProcess, running_gateways
from tests.support.registry import Registry, record
from tests.support.waiting import until

ORDER = record("Order", id="long")
LATER = record("Order", id="long", note=(["null", "string"], None))
MORE = record("Order", id="long", more=(["null", "long"], None))
UNFRAMED, FRAMED = {"id": 2, "note": "n"}, {"id": 3, "note": None}


class Two:
    """Two gateways that serve each request where it arrives, on one directory."""

    def __init__(self, gateways: list[GatewayProcess]) -> None:
        self.gateways = gateways
        self.first, self.second = (httpx.Client(base_url=one.url, timeout=60, trust_env=False) for one in gateways)
        self.registry = Registry(f"{gateways[0].url}/registry")

    def create(self, topic: str, **config: Any) -> int:
        """A topic whose values have a schema; its id."""
        schema_id = self.registry.register(f"{topic}-value", ORDER)
        settings = {"value.schema": f"{topic}-value", "flush.ms": 0} | config
        assert self.first.post("/v1/topics", json={"name": topic, "config": settings}).status_code == 201
        return schema_id

    def rows(self, topic: str) -> list[tuple[Any, Any]]:
        """The column and the reason of each record, by offset."""
        table: pa.Table = DeltaTable(f"{self.gateways[0].store}/topics/{topic}").to_pyarrow_table().sort_by("offset")
        return list(zip(table.column("data").to_pylist(), table.column("data_error").to_pylist(), strict=True))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Each test has topics and subjects of its own."""
    folder = tmp_path_factory.mktemp("typed")
    with running_gateways() as started:
        started += [
            GatewayProcess(folder / "store", folder / f"log{number}", "--forwarding", "off") for number in (0, 1)
        ]
        made = Two(started)
        yield made
        for client in (made.first, made.second, made.registry.http):
            client.close()


def framed(schema_id: int, schema: str, value: Any) -> dict[str, str]:
    """A record with a value as Confluent's Avro serializer writes it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return {"value_base64": base64.b64encode(b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()).decode()}


def produced(gateway: httpx.Client, topic: str, *records: Any, **headers: str) -> httpx.Response:
    """The answer to a request with these records."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return gateway.post(f"/v1/topics/{topic}/records", json={"records": records}, headers=sent)


def test_a_version_counts_at_every_gateway_as_soon_as_it_is_registered(two: Two) -> None:
    """A gateway that looked at the registry a moment ago looks again before it refuses a record: documents and framed values."""
    two.create("at-once")
    unknown = framed(1_000_000, ORDER, {"id": 1})
    assert produced(two.second, "at-once", unknown).status_code == 400
    newer = two.registry.register("at-once-value", LATER)
    assert produced(two.second, "at-once", {"value": UNFRAMED}).status_code == 200
    assert produced(two.second, "at-once", unknown).status_code == 400
    newest = two.registry.register("at-once-value", MORE)
    assert produced(two.second, "at-once", framed(newest, MORE, {"id": 4, "more": 1})).status_code == 200
    assert produced(two.second, "at-once", framed(newer, LATER, FRAMED)).status_code == 200
    assert two.rows("at-once") == [
        ({"id": 2, "note": "n", "more": None}, None),
        ({"id": 4, "note": None, "more": 1}, None),
        ({"id": 3, "note": None, "more": None}, None),
    ]


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_gateway_that_finishes_what_another_accepted_knows_its_schemas(two: Two, is_marked: bool) -> None:
    """Records of a transaction that were judged elsewhere, by a version that came later, have their columns and no mark."""
    topic = f"finished-{is_marked}".lower()
    first = two.create(topic, **({"data.on.error": "mark"} if is_marked else {}))
    assert produced(two.second, topic, framed(first, ORDER, {"id": 1})).status_code == 200
    newer = two.registry.register(f"{topic}-value", LATER)
    begun = two.first.post("/v1/transactions", json={"transactional_id": topic}).json()["transaction_id"]
    records = [framed(newer, LATER, FRAMED), {"value": UNFRAMED}]
    assert produced(two.first, topic, *records, tidelog_transaction=begun).status_code == 202
    assert two.second.post(f"/v1/transactions/{begun}:commit").status_code == 200
    assert two.rows(topic)[1:] == [(FRAMED, None), (UNFRAMED, None)]


def test_a_gateway_that_was_just_started_gives_delayed_records_their_columns(two: Two) -> None:
    """It has not been asked for anything typed yet, and looks at the registry before it publishes."""
    two.create("delayed")
    for number in range(4):
        late = {"value": {"id": number}, "deliver_after_ms": 1_500 + 500 * number}
        assert produced(two.first, "delayed", late).status_code == 200
    for gateway in two.gateways:
        gateway.kill()
        gateway.start()
    until(lambda: len(two.rows("delayed")) == 4)
    assert two.rows("delayed") == [({"id": number}, None) for number in range(4)]
