"""Transactions in typed topics: their records have the columns that they can have, and say so where they have none."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.schemas.schema_registry import Registration
from log_format.schemas.deletions import DeleteSubject
from log_format.schemas.schema import Schema, SchemaType
from tests.support.all_allowed import all_allowed
from tests.support.engine import Gateway, make_gateway
from tests.support.kafka_transactions import begun, stage

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
LATER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"note","type":"string","default":"-"}]}'


async def register(gateway: Gateway, schema: str) -> None:
    """Register a version of the topic's subject."""
    avro = Schema(type=SchemaType.AVRO, text=schema)
    await gateway.engine.schemas.register(Registration(subject="s", schema=avro, normalize=False))


def written(gateway: Gateway) -> dict[bytes, tuple[Any, Any]]:
    """The column and the reason of each value in the topic's newest commit, as its table's metadata has them."""
    objects = gateway.store.objects
    commits = [one.key for one in objects.list("topics/t/_delta_log/") if one.key.endswith(".json")]
    lines = [json.loads(line) for key in sorted(commits) for line in objects.get(key).splitlines()]
    columns = {
        one["name"]
        for one in json.loads([a for a in lines if "metaData" in a][-1]["metaData"]["schemaString"])["fields"]
    }
    newest = [json.loads(line) for line in objects.get(max(commits)).splitlines()]
    paths = [action["add"]["path"] for action in newest if "add" in action]
    tables = [pq.read_table(io.BytesIO(objects.get(f"topics/t/{path}"))) for path in paths]
    assert {name for table in tables for name in table.column_names} <= columns
    rows = pa.concat_tables(tables).select(["value", "data", "data_error"]).to_pylist()
    return {row["value"]: (row["data"], row["data_error"]) for row in rows}


@pytest.mark.parametrize("bounds", [{}, {"staged_names_max": 0, "transaction_piece_bytes": 1}], ids=["small", "large"])
async def test_records_have_their_columns_and_others_say_why_not(bounds: dict[str, Any]) -> None:
    """What was staged before the topic had its schema is judged when it is appended, by the newest one; so is each segment of a
    large transaction, whose commit widens the table."""
    gateway = make_gateway(**bounds)
    await register(gateway, ORDER)
    producer = await begun(gateway)
    for sequence, value in enumerate((b'{"id":1}', b"unfit", b'{"id":2,"note":"n"}')):
        assert await stage(gateway, producer, sequence, value) is None
    await gateway.engine.administration.alter("t", None, {"value.schema": "s"})
    other = make_gateway(objects=gateway.store.objects, **bounds)
    await register(other, LATER)
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    found = written(gateway)
    assert found[b'{"id":1}'] == ({"id": 1, "note": "-"}, None)
    assert found[b'{"id":2,"note":"n"}'] == ({"id": 2, "note": "n"}, None)
    assert found[b"unfit"] == (None, "value: it is not JSON (expecting value at character 0)")


@pytest.mark.parametrize("bounds", [{}, {"staged_names_max": 0, "transaction_piece_bytes": 1}], ids=["small", "large"])
async def test_records_that_nobody_can_judge_are_marked(bounds: dict[str, Any]) -> None:
    """A decided transaction is in the topic whatever became of the subject; the table says that its records were not judged."""
    gateway = make_gateway(**bounds)
    await register(gateway, ORDER)
    producer = await begun(gateway)
    assert await stage(gateway, producer, 0, b'{"id":1}') is None
    await gateway.engine.administration.alter("t", None, {"value.schema": "s"})
    for permanent in (False, True):
        await gateway.engine.schemas.decide(DeleteSubject(subject="s", permanent=permanent))
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    reason = "the topic's schemas were not known when the record was appended"
    assert written(gateway) == {b'{"id":1}': (None, reason)}
