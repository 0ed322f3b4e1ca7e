"""Unit tests of ``Producer.send_table`` over the in-process gateway."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from tests.support.fake_gateway import FakeGateway
from tidelog import Producer
from tidelog.errors import (
    DeliveryFailed,
)


def test_tables_go_in_order_and_in_pieces(gateway: FakeGateway) -> None:
    """A table's rows follow what was sent before it, each once, however many requests it takes."""
    gateway.create("t", 2)
    gateway.request_bytes_max = 60_000
    rows = 2_000
    table = pa.table(
        {"value": [b"%05d" % n + b"x" * 95 for n in range(rows)], "partition": [n % 2 for n in range(rows)]}
    )
    with Producer(gateway.url, linger_ms=1_000) as producer:
        producer.send("t", b"before", partition=0)
        result = producer.send_table("t", table).result(timeout=10)
        producer.send("t", b"after", partition=0)
        assert producer.send_table("t", table.slice(0, 0)).result(timeout=10).count == 0
    assert result.count == rows
    even = gateway.values("t")[0]
    assert even[0] == b"before"
    assert even[-1] == b"after"
    assert [int((value or b"")[:5]) for value in even[1:-1]] == list(range(0, rows, 2))
    assert [int((value or b"")[:5]) for value in gateway.values("t")[1]] == list(range(1, rows, 2))
    assert gateway.count("POST .*/records") > 3


def test_a_tables_later_pieces_are_not_sent_when_an_earlier_one_fails(gateway: FakeGateway) -> None:
    """No hole in the middle of a table: what is behind a failure stays out, and the error says how far it came."""
    gateway.create("t")
    gateway.request_bytes_max = 60_000
    table = pa.table({"value": [b"x" * 100] * 2_000})
    producer = Producer(gateway.url)
    producer.send("t", b"x").result(timeout=10)
    gateway.misbehave("POST .*/records", gateway.refuse(413, "REQUEST_TOO_LARGE", limit_bytes=60_000))
    gateway.misbehave(
        "POST .*/records", *[lambda exchange: exchange.carry_out()] * 2, gateway.refuse(400, "INVALID_RECORD")
    )
    future = producer.send_table("t", table)
    error = future.exception(timeout=10)
    assert error is not None
    stored = len(gateway.values("t")[0]) - 1
    assert 0 < stored < 2_000
    assert error.__notes__ == [f"The first {stored} of 2000 rows are stored."]
    with pytest.raises(DeliveryFailed) as caught:
        producer.close()
    assert caught.value.failed_count == 2_000 - stored


def test_whatever_has_the_arrow_interface_is_a_table(gateway: FakeGateway) -> None:
    """A DataFrame and a stream of record batches go as they are; what is no table is refused before anything is sent."""
    gateway.create("t")
    frame = pd.DataFrame({"value": ["1", "2"], "key": ["a", None]}, index=[7, 8])
    batches = pa.table({"value": [b"3", b"4"]}).to_reader(max_chunksize=1)
    with Producer(gateway.url) as producer:
        assert producer.send_table("t", frame).result(timeout=10).count == 2
        assert producer.send_table("t", batches).result(timeout=10).count == 2
        with pytest.raises(TypeError, match="not a table"):
            producer.send_table("t", [b"5"])  # type: ignore[arg-type]
    assert gateway.values("t") == [[b"1", b"2", b"3", b"4"]]
    assert [record.key for record in gateway.topics["t"].records[0]] == [b"a", None, None, None]
