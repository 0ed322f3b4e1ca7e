"""Java programs of our own writing, with Kafka's clients unchanged: transactions, share groups, patterns, Streams."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.kafka_clients.tried.programs import Running, consumed, expect, expect_in, java, run, tool, until

_WORDS = ("one two three", "two three", "three")


def _produce(servers: str, topic: str, lines: list[str]) -> None:
    given = "".join(f"{line}\n" for line in lines)
    run(java("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", servers, "--topic", topic), given=given)


def _committed(servers: str, topic: str, *more: object) -> list[str]:
    return consumed(servers, topic, "--isolation-level", "read_committed", *more)


def transactions(servers: str, directory: Path) -> None:
    """Consume, transform, produce in transactions, some of them aborted: each record once."""
    del directory
    at = ("--bootstrap-server", servers)
    for topic in ("java.in", "java.out"):
        tool("TopicCommand", *at, "--create", "--topic", topic, "--partitions", 2)
    lines = [f"value {number}" for number in range(500)]
    _produce(servers, "java.in", lines)
    run(java("Transfer", servers, "java.in", "java.out", len(lines), "abort"))
    expect(Counter(_committed(servers, "java.out")), Counter(line.upper() for line in lines), "committed records")


def shares(servers: str, directory: Path) -> None:
    """KafkaShareConsumer: accept (both modes), release, reject, renew, a lock that ends, two on one partition."""
    del directory
    expect_in("shared", run(java("Share", servers, 2_000)))


def patterns(servers: str, directory: Path) -> None:
    """Java 4: two members' patterns (RE2J), a topic that comes, wrong patterns; topics described and deleted by id."""
    del directory
    expect_in("as they should be", run(java("Patterns", servers, 60)))


def streams(servers: str, directory: Path) -> None:
    """A word count with exactly-once v2, killed and started again: the counts are right."""
    at = ("--bootstrap-server", servers)
    for topic in ("streams.in", "streams.out"):
        tool("TopicCommand", *at, "--create", "--topic", topic, "--partitions", 2)
    _produce(servers, "streams.in", list(_WORDS) * 20)
    command = java("WordCount", servers, "streams.in", "streams.out", directory / "state")
    log = directory / "streams.log"
    shown = ("--formatter-property", "print.key=true")

    def counts() -> dict[str, str]:
        pairs = (line.partition("\t") for line in _committed(servers, "streams.out", *shown))
        return {word: count for word, _, count in pairs if count}

    first = Running(command, log)
    try:
        until(lambda: counts() == {"one": "20", "two": "40", "three": "60"}, "the first counts", first)
    finally:
        first.stop(kill=True)
    _produce(servers, "streams.in", list(_WORDS) * 5)
    with Running(command, log) as second:
        until(lambda: counts() == {"one": "25", "two": "50", "three": "75"}, "counts after the kill", second)
