"""Clients in other languages: kcat (librdkafka), franz-go, Spark."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kafka_clients.tried.programs import ROOT, Failed, Missing, expect, expect_in, kept, run, tool


def kcat(servers: str, directory: Path) -> None:
    """kcat: list, produce, consume from both ends, a group, query by time."""
    del directory
    tool("TopicCommand", "--bootstrap-server", servers, "--create", "--topic", "kcat", "--partitions", 2)
    given = "".join(f"k{number}:v{number}\n" for number in range(200))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        run(["kcat", "-b", servers, "-P", "-t", "kcat", "-K", ":", "-z", codec], given=given)
    expect_in('topic "kcat" with 2 partitions', run(["kcat", "-b", servers, "-L"]))
    got = run(["kcat", "-b", servers, "-C", "-t", "kcat", "-o", "beginning", "-e", "-q", "-K", ":"])
    expect(sorted(got.splitlines()), sorted(given.splitlines() * 5), "records")
    expect(
        len(run(["kcat", "-b", servers, "-C", "-t", "kcat", "-p", "0", "-o", "-3", "-e", "-q"]).splitlines()), 3, "tail"
    )
    expect_in("kcat [0] offset 0", run(["kcat", "-b", servers, "-Q", "-t", "kcat:0:1"]))
    grouped = run(
        ["kcat", "-b", servers, "-G", "kcat.group", "-X", "auto.offset.reset=earliest", "-c", "1000", "-q", "kcat"]
    )
    expect(len(grouped.splitlines()), 1000, "records of a group")


def franz(servers: str, directory: Path) -> None:
    """franz-go: a topic, produce, a group, commit, lag."""
    del directory
    if not (kept() / "franz").exists():
        raise Missing("no program of franz-go: make kafka-clients builds it with Go")
    expect_in("1000 records", run([str(kept() / "franz"), servers, "franz", "1000"]))


def spark(servers: str, directory: Path) -> None:
    """Spark's Kafka source and sink: batch, then a stream that is stopped and goes on."""
    jars = Path(run(["sh", str(ROOT / "scripts" / "kafka.sh"), "path"]).strip()) / "spark"
    if not (jars / "complete").exists():
        raise Missing("no Kafka source of Spark: scripts/kafka.sh spark gets it")
    tool("TopicCommand", "--bootstrap-server", servers, "--create", "--topic", "spark.in", "--partitions", 2)
    tool("TopicCommand", "--bootstrap-server", servers, "--create", "--topic", "spark.out", "--partitions", 2)
    script = Path(__file__).parents[1] / "spark_program.py"
    said = run([sys.executable, str(script), servers, str(jars), str(directory)], seconds=300)
    if "spark is done" not in said:
        raise Failed(said.strip()[-200:])
