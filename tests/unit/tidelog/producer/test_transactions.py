"""Unit tests of a producer's transactions, over the in-process gateway."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tests.support.fake_gateway import Exchange, FakeGateway
from tests.support.waiting import eventually
from tidelog import GroupMetadata, Producer, TopicPartition
from tidelog.errors import (
    DeliveryFailed,
    FencedProducer,
    GatewayUnreachable,
    OutcomeUnknown,
    RequestTooLarge,
    StaleGeneration,
    TransactionAborted,
    TransactionNotOpen,
    UnknownTopic,
)


def transactional(gateway: FakeGateway, name: str = "id", **settings: Any) -> Producer:
    return Producer(gateway.url, transactional_id=name, **{"linger_ms": 0, **settings})


def read(gateway: FakeGateway, topic: str) -> list[bytes]:
    return [value for values in gateway.values(topic) for value in values if value is not None]


def test_a_commit_says_where_every_record_is(gateway: FakeGateway) -> None:
    """Records and tables, in many requests of several topics: each future has the place where its record is, and none before."""
    gateway.create("t", 3)
    gateway.create("u", 1)
    with transactional(gateway, batch_bytes=2_000) as producer:
        for _ in range(2):
            with producer.transaction():
                sent = [
                    (producer.send("t", f"{number}", key=f"k{number % 5}" if number % 2 else None), b"%d" % number)
                    for number in range(300)
                ]
                producer.flush()
                table = pa.table({"value": [b"a", b"b", b"c", b"d"], "key": ["k1", "k2", None, "k1"]})
                rows = producer.send_table("t", table)
                sent += [(producer.send("u", f"u{number}"), b"u%d" % number) for number in range(50)]
                sent += [(producer.send("t", f"late {number}"), b"late %d" % number) for number in range(9)]
                producer.flush()
                assert not any(future.done() for future, _ in sent)
            for future, value in sent:
                place = future.result(0)
                assert gateway.values(place.topic)[place.partition][place.offset] == value
            stored = rows.result(0).partitions
            assert sum(each.count for each in stored) == 4
            of_table = [gateway.values("t")[e.partition][e.base_offset : e.last_offset + 1] for e in stored]
            assert sorted(value or b"" for values in of_table for value in values) == [b"a", b"b", b"c", b"d"]
    assert len(read(gateway, "t")) == 2 * 313


def test_a_raising_block_is_aborted(gateway: FakeGateway) -> None:
    """Nothing appears, the futures say so, the block's own exception comes out, and the next transaction works."""
    gateway.create("t")
    with transactional(gateway) as producer:
        futures = []

        def block() -> None:
            with producer.transaction():
                futures.append(producer.send("t", "a"))
                producer.flush()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            block()
        assert isinstance(futures[0].exception(0), TransactionAborted)
        with producer.transaction():
            producer.send("t", "b")
    assert read(gateway, "t") == [b"b"]


@pytest.mark.parametrize("done", [True, False])
def test_lost_answers_double_nothing(gateway: FakeGateway, done: bool) -> None:
    """Each call's answer is lost, after it was carried out or before: it is repeated, and every record is there once."""
    gateway.create("t")
    with transactional(gateway) as producer:
        with producer.transaction():
            producer.send("t", "first")
        lost = gateway.lose(done=done)
        gateway.misbehave(r"POST /v1/transactions$", lost)
        gateway.misbehave(r"POST /v1/topics/t/records", lost, lost)
        gateway.misbehave(r"/offsets$", lost)
        gateway.misbehave(r":commit$", lost, lost)
        with producer.transaction():
            futures = [producer.send("t", f"{number}") for number in range(3)]
            producer.send_offsets_to_transaction({TopicPartition("s", 0): 7}, "g")
        assert [future.result(0).offset for future in futures] == [1, 2, 3]
    assert read(gateway, "t") == [b"first", b"0", b"1", b"2"]


def test_a_commit_in_doubt_is_cleared_up_by_another(gateway: FakeGateway) -> None:
    """When no gateway could say in time it is ``OutcomeUnknown``; nothing new begins before the same commit has its answer."""
    gateway.create("t")
    with transactional(gateway, delivery_timeout_ms=6_000) as producer:
        producer.begin_transaction()
        future = producer.send("t", "a")
        producer.flush()
        gateway.misbehave(r":commit$", gateway.lose(done=True), *[gateway.refuse(504, "OUTCOME_UNKNOWN")] * 500)
        with pytest.raises(OutcomeUnknown):
            producer.commit_transaction()
        assert not future.done()
        with pytest.raises(RuntimeError, match="not known"):
            producer.begin_transaction()
        with pytest.raises(RuntimeError, match="not known"):
            producer.send("t", "b")
        with pytest.raises(TransactionNotOpen):
            producer.abort_transaction()
        gateway._faults.clear()
        producer.commit_transaction()
        assert future.result(0).offset == 0
        with producer.transaction():
            producer.send("t", "b")
    assert read(gateway, "t") == [b"a", b"b"]


def test_a_refused_commit_is_over(gateway: FakeGateway) -> None:
    """Gateways that refuse for too long: the error says that nothing happened, nothing did, and the next one begins."""
    gateway.create("t")
    with transactional(gateway, delivery_timeout_ms=1_000) as producer:
        producer.begin_transaction()
        future = producer.send("t", "a")
        producer.flush()
        gateway.misbehave(r":commit$", *[gateway.refuse(503, "UNAVAILABLE")] * 500)
        with pytest.raises(Exception, match="UNAVAILABLE") as caught:
            producer.commit_transaction()
        assert caught.value.may_have_happened is False  # type: ignore[attr-defined]
        assert isinstance(future.exception(0), TransactionAborted)
        gateway._faults.clear()
        with producer.transaction():
            producer.send("t", "b")
    assert read(gateway, "t") == [b"b"]


def test_a_failed_record_fails_its_transaction(gateway: FakeGateway) -> None:
    """One record can't be stored: the commit raises, nothing of the transaction appears, all futures raise."""
    gateway.create("t")
    with transactional(gateway) as producer:
        producer.begin_transaction()
        good = producer.send("t", "a")
        producer.flush()
        bad = producer.send("nowhere", "b")
        with pytest.raises(DeliveryFailed):
            producer.flush()
        with pytest.raises(UnknownTopic):
            producer.commit_transaction()
        assert isinstance(bad.exception(0), UnknownTopic)
        assert isinstance(good.exception(0), TransactionAborted)
        producer.begin_transaction()
        producer.send("t", "x" * 2_000_000)
        late = producer.send("t", "c")
        with pytest.raises(DeliveryFailed):
            producer.commit_transaction()
        assert isinstance(late.exception(0), TransactionAborted)
        with producer.transaction():
            producer.send("t", "d")
    assert read(gateway, "t") == [b"d"]


def test_a_transaction_that_is_too_large_says_so(gateway: FakeGateway) -> None:
    """Smaller requests would not help: what is refused is told as it is, and what waited behind it is no error of its own. The
    next transaction stages requests as large as ever."""
    gateway.create("t")
    refuse = gateway.refuse(413, "REQUEST_TOO_LARGE", limit_bytes=100, limit_of="transaction")
    behind = gateway.refuse(409, "SEQUENCE_OUT_OF_ORDER", retryable=True, expected_sequence=0)
    is_asked, goes_on = threading.Event(), threading.Event()

    def slowly(exchange: Exchange) -> None:
        is_asked.set()
        goes_on.wait(10)
        refuse(exchange)

    gateway.misbehave("POST .*/records", slowly, behind)
    with transactional(gateway, linger_ms=100) as producer:
        producer.begin_transaction()
        refused = [producer.send("t", "x" * 200) for _ in range(2)]
        assert is_asked.wait(10)
        late = producer.send("t", "behind")
        refused.append(late)
        assert eventually(lambda: gateway.count("POST .*/records") == 2)
        goes_on.set()
        with pytest.raises(DeliveryFailed, match="REQUEST_TOO_LARGE") as caught:
            producer.commit_transaction()
        assert isinstance(caught.value.__cause__, RequestTooLarge)
        assert [type(future.exception(0)) for future in refused] == [RequestTooLarge] * 2 + [TransactionAborted]
        assert "REQUEST_TOO_LARGE" in str(late.exception(0))
        with producer.transaction():
            last = [producer.send("t", "y" * 200) for _ in range(2)]
        assert [future.result(0).offset for future in last] == [0, 1]
    assert len(read(gateway, "t")) == 2


def test_the_newest_holder_goes_on(gateway: FakeGateway) -> None:
    """Of two producers with one transactional id the older is fenced, at each of its calls, and stays so."""
    gateway.create("t")
    for old_call in ("commit", "send", "abort", "offsets"):
        with transactional(gateway, old_call) as old, transactional(gateway, old_call) as new:
            old.begin_transaction()
            old.send("t", "old")
            old.flush()
            new.init_transactions()
            if old_call == "send":
                old.send("t", "more")
            calls: dict[str, Callable[[], object]] = {
                "commit": old.commit_transaction,
                "send": old.flush,
                "abort": old.abort_transaction,
                "offsets": partial(old.send_offsets_to_transaction, {TopicPartition("s", 0): 1}, "g"),
            }
            with pytest.raises((FencedProducer, DeliveryFailed)) as caught:
                calls[old_call]()
            assert caught.value.code == "FENCED_PRODUCER"
            if old_call == "send":
                with pytest.raises(FencedProducer):
                    old.commit_transaction()
            with pytest.raises(FencedProducer):
                old.begin_transaction()
            with new.transaction():
                new.send("t", old_call)
    assert read(gateway, "t") == [b"commit", b"send", b"abort", b"offsets"]


def test_who_finds_another_at_the_beginning_is_the_older(gateway: FakeGateway) -> None:
    """A producer that slept between two transactions while another used its id does not go on with what it knew."""
    gateway.create("t")
    with transactional(gateway) as old, transactional(gateway) as new:
        with old.transaction():
            old.send("t", "old")
        with new.transaction():
            new.send("t", "new")
        for _ in range(2):
            with pytest.raises(FencedProducer):
                old.begin_transaction()
    assert read(gateway, "t") == [b"old", b"new"]


def test_refused_offsets_fail_the_transaction(gateway: FakeGateway) -> None:
    """Records without the offsets that belong to them would be done twice: after a refusal nothing is committed."""
    gateway.create("t")
    gateway.refuse_offsets = "STALE_GENERATION"
    with transactional(gateway) as producer:
        producer.begin_transaction()
        producer.send("t", "a")
        with pytest.raises(StaleGeneration):
            producer.send_offsets_to_transaction({TopicPartition("s", 0): 1}, GroupMetadata("g", "m", 3))
        with pytest.raises(StaleGeneration):
            producer.commit_transaction()
        gateway.refuse_offsets = None
        with producer.transaction():
            producer.send_offsets_to_transaction({TopicPartition("s", 0): 1}, GroupMetadata("g", "m", 3))
    assert read(gateway, "t") == []
    offset = {"topic": "s", "partition": 0, "offset": 1}
    assert gateway.transactions["t1"].offsets == [
        {"group": "g", "member_id": "m", "generation": 3, "offsets": [offset]}
    ]


def test_calls_out_of_place(gateway: FakeGateway, dead_url: str) -> None:
    """Wrong calls are refused before anything is sent; a gateway that is away leaves the producer as it was."""
    gateway.create("t")
    with Producer(gateway.url) as plain, pytest.raises(RuntimeError, match="transactional_id"):
        plain.begin_transaction()
    with pytest.raises(ValueError, match="idempotence"):
        Producer(transactional_id="x", enable_idempotence=False)
    with pytest.raises(ValueError, match="transaction_timeout_ms"):
        Producer(transactional_id="x", transaction_timeout_ms=10)
    with transactional(gateway) as producer:
        for call in (producer.commit_transaction, producer.abort_transaction, lambda: producer.send("t", "a")):
            with pytest.raises(RuntimeError, match="no open transaction"):
                call()
        producer.begin_transaction()
        with pytest.raises(RuntimeError, match="is open"):
            producer.begin_transaction()
        producer.abort_transaction()
    with Producer(dead_url, transactional_id="x", delivery_timeout_ms=300) as producer:
        for _ in range(2):
            with pytest.raises(GatewayUnreachable):
                producer.begin_transaction()


def test_closing_aborts(gateway: FakeGateway) -> None:
    """What is open when the producer is closed does not appear, and its futures are done."""
    gateway.create("t")
    producer = transactional(gateway)
    producer.begin_transaction()
    future = producer.send("t", "a")
    producer.close()
    assert isinstance(future.exception(0), TransactionAborted)
    assert [one.state for one in gateway.transactions.values()] == ["aborted"]
    with pytest.raises(RuntimeError, match="closed"):
        producer.begin_transaction()


def test_sends_from_many_threads_end_with_the_transaction(gateway: FakeGateway) -> None:
    """Threads send while the transaction is committed: a send is inside it, whole, or refused; none is lost or doubled."""
    gateway.create("t", 2)
    accepted: list[str] = []
    lock = threading.Lock()
    with transactional(gateway) as producer:
        producer.begin_transaction()
        started = threading.Barrier(5)

        def send(name: int) -> None:
            started.wait(30)
            for number in range(100_000):
                try:
                    producer.send("t", f"{name}-{number}")
                except RuntimeError:
                    return
                with lock:
                    accepted.append(f"{name}-{number}")

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        started.wait(30)
        while len(accepted) < 200:
            threading.Event().wait(0.001)
        producer.commit_transaction()
        for thread in threads:
            thread.join()
    assert sorted(value.decode() for value in read(gateway, "t")) == sorted(accepted)


def test_on_delivery_is_told_at_the_end(gateway: FakeGateway) -> None:
    """Of each record once, when its transaction has ended: with its place, or why it has none."""
    gateway.create("t")
    told: list[tuple[bytes | None, int | None]] = []
    with transactional(
        gateway, on_delivery=lambda error, record: told.append((record.value, record.offset))
    ) as producer:
        with producer.transaction():
            producer.send("t", "a")
            producer.flush()
            assert told == []
        assert told == [(b"a", 0)]
        producer.begin_transaction()
        producer.send("t", "b")
        producer.abort_transaction()
    assert told == [(b"a", 0), (b"b", None)]
