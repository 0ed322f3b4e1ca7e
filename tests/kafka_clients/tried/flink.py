"""Flink's Kafka connector: its source, and its exactly-once sink."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.kafka_clients.tried.programs import Missing, expect_in, java, kept, run, tool

_RECORDS: Final = 2_000
_MEBIBYTES: Final = 256
_SECONDS: Final = 300


def moved(servers: str, directory: Path) -> str:
    """From a topic to another, a checkpoint each 500 ms, failed twice, each record once; both ways to name transactions."""
    del directory
    at = ("--bootstrap-server", servers)
    tool("TopicCommand", *at, "--create", "--topic", "flink.in", "--partitions", 2)
    given = "".join(f"{number}\n" for number in range(_RECORDS))
    run(java("org.apache.kafka.tools.ConsoleProducer", *at, "--topic", "flink.in"), given=given)
    said = []
    for strategy in ("POOLING", "INCREMENTING"):
        topic = f"flink.{strategy.lower()}"
        tool("TopicCommand", *at, "--create", "--topic", topic, "--partitions", 2)
        said.append(f"{strategy}: " + _ledger(servers, topic, "moved", "flink.in", _RECORDS, strategy))
    return "; ".join(said)


def large(servers: str, directory: Path) -> str:
    """256 MiB in one checkpoint, by one transaction, and by two at once to the same partitions."""
    del directory
    said = []
    for sinks in (1, 2):
        topic = f"flink.large-{sinks}"
        tool("TopicCommand", "--bootstrap-server", servers, "--create", "--topic", topic, "--partitions", 2)
        said.append(f"sinks {sinks}: " + _ledger(servers, topic, "large", _MEBIBYTES, sinks))
    return "; ".join(said)


def _ledger(servers: str, *arguments: object) -> str:
    here = kept() / "flink"
    if not (here / "java.complete").exists():
        raise Missing("no Flink: make kafka-clients gets it by Maven")
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util")]
    jars = f"{here}/libs/*:{here}/classes"
    said = run(java("Ledger", servers, *arguments, options=("-Xmx512m", *opened), jars=jars), seconds=_SECONDS)
    expect_in("each record once", said)
    return said.strip().splitlines()[-1]
