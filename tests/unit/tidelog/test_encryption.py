"""``tidelog.encryption``: a reader with the key opens what was sealed; nothing changed opens, and keys stay plain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.policy import Policy
from tests.support.fake_gateway import FakeGateway
from tests.support.maintenance_bench import MaintenanceBench
from tidelog import Admin, Consumer, Producer, QueueConsumer, Record, TopicPartition, aio
from tidelog.encryption import HEADER, OVERHEAD_BYTES, Envelope, EnvelopeError, LocalKeys

FIRST, SECOND = "a" * 64, "b" * 64


def keys(directory: Path, *lines: str) -> LocalKeys:
    file = directory / "keys"
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)
    return LocalKeys(file)


@pytest.fixture(scope="module")
def envelope(tmp_path_factory: pytest.TempPathFactory) -> Envelope:
    return Envelope(keys(tmp_path_factory.mktemp("keys"), f"first {FIRST}"))


def record(value: bytes | None, headers: list[tuple[str, bytes | str | None]], key: bytes | None = None) -> Record:
    as_read = tuple((name, text.encode() if isinstance(text, str) else text) for name, text in headers)
    return Record("t", 0, 7, 1, key, value, as_read)


@given(st.binary(max_size=200), st.none() | st.binary(max_size=20))
def test_what_is_sealed_opens(envelope: Envelope, value: bytes, key: bytes | None) -> None:
    """Any bytes, with any key; the sealed value is longer by the overhead, and not the same twice."""
    sealed, headers = envelope.seal(value, key=key, headers=[("source", "a")])
    assert sealed is not None
    assert len(sealed) == len(value) + OVERHEAD_BYTES
    assert headers[0] == ("source", "a")
    assert envelope.open(record(sealed, headers, key)) == value
    assert envelope.seal(value, key=key)[0] != sealed


def test_nothing_that_was_changed_opens(envelope: Envelope) -> None:
    """Not one bit of the value or of the header, no other key, no missing header."""
    sealed, headers = envelope.seal("a secret", key="user-7")
    assert sealed is not None
    assert b"secret" not in sealed
    assert envelope.open(record(sealed, headers, b"user-7")) == b"a secret"
    ((_, header),) = headers
    assert isinstance(header, bytes)
    for at in range(len(sealed)):
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises(EnvelopeError):
            envelope.open(record(changed, headers, b"user-7"))
    for at in range(len(header)):
        changed = header[:at] + bytes([header[at] ^ 1]) + header[at + 1 :]
        with pytest.raises(EnvelopeError):
            envelope.open(record(sealed, [(HEADER, changed)], b"user-7"))
    for cut in range(len(header)):
        with pytest.raises(EnvelopeError):
            envelope.open(record(sealed, [(HEADER, header[:cut])], b"user-7"))
    for key in (None, b"user-8", b""):
        with pytest.raises(EnvelopeError):
            envelope.open(record(sealed, headers, key))
    with pytest.raises(EnvelopeError, match="not encrypted"):
        envelope.open(record(b"plain", [], b"user-7"))


def test_a_tombstone_stays_one(envelope: Envelope) -> None:
    """Compaction goes by it."""
    assert envelope.seal(None, key="user-7") == (None, [])
    assert envelope.open(record(None, [], b"user-7")) is None


def test_keys_are_changed_one_line_at_a_time(tmp_path: Path) -> None:
    """The first line seals; older lines still open; without its line a value stays closed, and no text holds a key."""
    old = Envelope(keys(tmp_path, f"old {FIRST}"))
    sealed, headers = old.seal(b"v")
    both = Envelope(keys(tmp_path, f"new {SECOND}", f"old {FIRST}"))
    assert both.open(record(sealed, headers)) == b"v"
    resealed, new_headers = both.seal(b"v")
    alone = Envelope(keys(tmp_path, f"new {SECOND}"))
    assert alone.open(record(resealed, new_headers)) == b"v"
    with pytest.raises(EnvelopeError, match="'old' is missing") as raised:
        alone.open(record(sealed, headers))
    assert FIRST not in str(raised.value)
    wrong = Envelope(keys(tmp_path, f"old {SECOND}"))
    with pytest.raises(EnvelopeError, match=r"can.t be unwrapped"):
        wrong.open(record(sealed, headers))


def test_a_data_key_is_not_used_for_ever(tmp_path: Path) -> None:
    """After so many values there is another one; a reader keeps a bounded number of them."""
    envelope = Envelope(keys(tmp_path, f"first {FIRST}"), values_max=3, opened_keys_max=2)
    sealed = [envelope.seal(b"%d" % number) for number in range(12)]
    assert len({headers[0][1] for _, headers in sealed}) == 4
    assert [envelope.open(record(*each)) for each in sealed] == [b"%d" % number for number in range(12)]
    assert len(envelope._opened) == 2


@pytest.mark.parametrize("text", ["", "first", f"first {FIRST[:-1]}", f"a {FIRST}\na {SECOND}", f"a b {FIRST}"])
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str) -> None:
    """And one that others can use."""
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        keys(tmp_path, text)
    open_file = tmp_path / "open"
    open_file.write_text(f"first {FIRST}\n")
    open_file.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        LocalKeys(open_file)


def test_producer_and_consumer_seal_and_open(gateway: FakeGateway, envelope: Envelope) -> None:
    """The gateway sees keys and sealed values; serializers see plain ones; a null value is a null value at the gateway, too."""
    topic = gateway.create("t")
    with Producer(gateway.url, envelope=envelope, value_serializer=lambda text: text and text.encode()) as producer:
        for value in ("a secret", None):
            producer.send("t", value, key="user-7", headers={"source": "a"}).result(30)
        with pytest.raises(ValueError, match="can't send tables"):
            producer.send_table("t", pa.table({"value": [b"plain"]}))
    sealed, tombstone = topic.records[0]
    assert (sealed.key, tombstone.key, tombstone.value) == (b"user-7", b"user-7", None)
    assert b"secret" not in bytes(sealed.value)
    with Consumer("t", bootstrap_servers=gateway.url, envelope=envelope, value_deserializer=bytes.decode) as consumer:
        read = consumer.poll(10_000)
    assert [record.value for record in read] == ["a secret", None]
    assert dict(read[1].headers) == {"source": b"a"}


def test_a_consumer_that_can_not_open_says_so_and_stays(
    gateway: FakeGateway, envelope: Envelope, tmp_path: Path
) -> None:
    """Without the key, and at a value that was never sealed: the error names the record, and nothing is passed over."""
    gateway.create("t")
    other = Envelope(keys(tmp_path, f"second {SECOND}"))
    with Producer(gateway.url, envelope=envelope) as producer, Producer(gateway.url) as open_producer:
        producer.send("t", "a secret").result(30)
        open_producer.send("t", "plain").result(30)
    with Consumer("t", bootstrap_servers=gateway.url, envelope=other) as consumer:
        for _ in range(2):
            with pytest.raises(EnvelopeError, match="'first' is missing") as raised:
                consumer.poll(10_000)
            assert raised.value.__notes__ == ["deserializing t/0 at offset 0"]
        consumer.seek(TopicPartition("t", 0), 1)
        with pytest.raises(EnvelopeError, match="not encrypted"):
            consumer.poll(10_000)


def test_compaction_keeps_the_newest_sealed_value_of_each_key(envelope: Envelope) -> None:
    """Keys are plain and null values null, so maintenance needs no key: what it keeps opens, and what was deleted is gone."""
    bench = MaintenanceBench()
    bench.create(1, cleanup_policy="compact", delete_retention_ms=0)
    headers: dict[bytes | None, list[tuple[str, bytes | str | None]]] = {}
    wanted: list[tuple[bytes, bytes | None]] = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b"1")]
    for key, plain in [*wanted, (b"z", b"the newest segment stays as it is")]:
        value, given = envelope.seal(plain, key=key)
        headers[value] = given
        bench.append((0, key, value))
    job = bench.job(Policy(flushed_min=2, sources_max=len(wanted), fan_in=2))
    for _ in range(3):
        job.run_round(collect=False)
        bench.clock.pass_ms(1_000)
    kept = dict(zip((b"a", b"c", b"z"), (value for _, value in bench.read() if value is not None), strict=True))
    opened = [envelope.open(record(value, headers[value], key)) for key, value in kept.items()]
    assert opened == [b"2", b"1", b"the newest segment stays as it is"]


def test_asyncio_clients_seal_and_open(gateway: FakeGateway, envelope: Envelope) -> None:
    """As the others."""
    topic = gateway.create("t")

    async def sent_and_read() -> list[Record]:
        async with aio.Producer(gateway.url, envelope=envelope) as producer:
            await (await producer.send("t", b"a secret", key=b"user-7"))
        async with aio.Consumer("t", bootstrap_servers=gateway.url, envelope=envelope) as consumer:
            return await consumer.poll(10_000)

    (read,) = asyncio.run(sent_and_read())
    assert (read.key, read.value) == (b"user-7", b"a secret")
    assert b"secret" not in bytes(topic.records[0][0].value)


def test_workers_of_a_queue_open_what_they_can(gateway: FakeGateway, envelope: Envelope) -> None:
    """What they can't open is handed to no handler: it is released, as where a handler raises. The same from asyncio."""
    topic = gateway.create("t")
    with Producer(gateway.url, envelope=envelope) as producer, Producer(gateway.url) as open_producer:
        for client, value in ((producer, "a secret"), (open_producer, "never sealed"), (producer, "another")):
            client.send("t", value, key="user-7").result(30)
    with Admin(gateway.url) as admin:
        admin.create_queue("q", ["t"], start="earliest")
        admin.create_queue("p", ["t"], start="earliest")

    def settled(queue: str) -> dict[int, str]:
        return {place[2]: action for place, action in gateway.queues[queue].settled.items()}

    handled: list[bytes | None] = []
    settings: dict[str, Any] = {"bootstrap_servers": gateway.url, "envelope": envelope, "consumer_timeout_ms": 3_000}
    with QueueConsumer("q", **settings) as queue:
        queue.run(lambda record: handled.append(record.value))
    assert handled == [b"a secret", b"another"]
    assert b"secret" not in bytes(topic.records[0][0].value)
    assert settled("q").get(1) != "accept"
    assert (settled("q")[0], settled("q")[2]) == ("accept", "accept")

    async def taken() -> list[bytes | None]:
        async with aio.QueueConsumer("p", **settings) as queue:
            return [record.value for record in await queue.poll(10_000)]

    assert asyncio.run(taken()) == [b"a secret", b"another"]


def test_through_a_gateway(gateway: FakeGateway, envelope: Envelope) -> None:
    """The gateway sees keys and sealed values; the reader gets what was sent."""
    topic = gateway.create("t")
    with Producer(gateway.url) as producer:
        value, headers = envelope.seal("a secret", key="user-7")
        producer.send("t", value, key="user-7", headers=headers).result(30)
    assert topic.records[0][0].key == b"user-7"
    assert b"secret" not in bytes(topic.records[0][0].value)
    with Consumer("t", bootstrap_servers=gateway.url) as consumer:
        (read,) = consumer.poll(10_000)
    assert envelope.open(read) == b"a secret"
