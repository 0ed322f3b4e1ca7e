"""The batch that makes a Kafka client's transaction too large is refused, not the commit of what was acknowledged."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KafkaError

from gateway.applied_transactions import staged_sizes
from gateway.applied_transactions.staged_sizes import StagedSizes
from gateway.kafka.calls.batch_origin import staging_error
from log_format.errors import ErrorCode
from tests.support.all_allowed import all_allowed
from tests.support.engine import make_gateway
from tests.support.kafka_transactions import begun, stage, values

BYTES_MAX = 64 * 1024
VALUE = b"x" * 4_000


async def test_what_was_acknowledged_can_be_committed() -> None:
    """The batch that crosses the bound is refused for good, and the transaction of those before it commits."""
    gateway = make_gateway(kafka_transaction_bytes_max=BYTES_MAX)
    producer = await begun(gateway)
    staged = 0
    while (outcome := await stage(gateway, producer, staged, VALUE)) is None:
        staged += 1
        assert staged < 20, "the bound was never met"
    assert outcome.code is ErrorCode.REQUEST_TOO_LARGE
    assert outcome.fields["limit_of"] == "transaction"
    assert staging_error(outcome) is KafkaError.policy_violation
    assert staged > 10
    await gateway.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    assert len(await values(gateway)) == staged
    await gateway.engine.drain()


async def test_the_bound_is_that_of_all_gateways_together() -> None:
    """Batches of one transaction that two gateways stage are counted together."""
    gateway = make_gateway(kafka_transaction_bytes_max=BYTES_MAX)
    other = make_gateway(objects=gateway.store.objects, kafka_transaction_bytes_max=BYTES_MAX)
    producer = await begun(gateway)
    refused = []
    for sequence in range(24):
        outcome = await stage((gateway, other)[sequence % 2], producer, sequence, VALUE)
        if outcome is not None:
            refused.append((sequence, outcome.code))
            break
    ((sequence, code),) = refused
    assert code is ErrorCode.REQUEST_TOO_LARGE
    await other.engine.kafka_transactions.end(producer, all_allowed, is_committed=True)
    assert len(await values(gateway)) == sequence
    await gateway.engine.drain()
    await other.engine.drain()


def test_a_small_transaction_is_not_listed() -> None:
    """Up to a quarter of both bounds no batch asks for a listing; then one does after a quarter of what was left."""
    sizes = StagedSizes(800, 8_000)
    due = [number for number in range(1, 301) if sizes.add("t", 1)]
    assert due[0] == 200
    sizes.listed("t", 400, 300)
    assert not sizes.add("t", 99)
    assert sizes.add("t", 1)
    sizes.listed("t", 800, 400)
    assert sizes.add("t", 1)


def test_a_large_transaction_is_listed_a_few_times() -> None:
    """Up to its bound some twenty times, however many batches are under way at once; beyond it for each batch."""
    sizes, listings, under_way = StagedSizes(1 << 60, 100_000), 0, 16
    count = 0
    while count < 100_000:
        due = [sizes.add("t", 1) for _ in range(under_way)]
        count += under_way
        listings += sum(due)
        if any(due):
            sizes.listed("t", count, count)
    assert 10 < listings < 30 + under_way
    assert all(sizes.add("t", 1) for _ in range(10))


def test_counts_have_a_bound() -> None:
    """Past the bound the transaction that was longest unused is forgotten."""
    sizes = StagedSizes(1_000_000, 1_000_000)
    for number in range(staged_sizes.REMEMBERED_MAX + 10):
        assert not sizes.add(str(number), 1)
    assert len(sizes._sizes) == staged_sizes.REMEMBERED_MAX
