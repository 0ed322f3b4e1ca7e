"""Batches kept for further consumers: found by exactly what they are, within the bound."""

from __future__ import annotations

from gateway.kafka.encoded_batches import BatchKey, EncodedBatches


def place(number: int) -> BatchKey:
    return BatchKey("topic", 0, number, number + 1, 0, log_append_time=False)


def test_the_least_recently_used_batch_leaves_first() -> None:
    """The bound holds; one that takes more than a quarter of it is not kept."""
    kept = EncodedBatches(10_000)
    kept.add(place(0), [b"x" * 5_000])
    assert (kept.find(place(0)), kept.size_bytes) == (None, 0)
    for number in range(5):
        kept.add(place(number), [b"head", memoryview(b"y" * 1_000)])
    assert kept.find(place(0)) is not None
    for number in range(5, 9):
        kept.add(place(number), [b"z" * 1_000])
        assert kept.size_bytes <= 10_000
    assert kept.find(place(0)) is not None
    assert kept.find(place(1)) is None
    assert kept.find(place(0)._replace(codec=4)) is None
