"""Records one by one into Kafka: librdkafka, Kafka's own Java producer, and kafka-python."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.client import Sent, run
from benchmarks.kafka.broker import Broker, kept, run_tool

_CLIENTS = Path(__file__).with_name("clients.py")
_RATE = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)


def measure(broker: Broker, *, records: int, value_bytes: int) -> Iterator[Sent]:
    """Run each client once. kafka-python, twenty times slower, gets a tenth of the records."""
    for client, count in (("confluent-kafka", records), ("kafka-python", records // 10)):
        topic = f"{client}-{value_bytes}"
        broker.make_topic(topic)
        command = [str(kept() / "venv" / "bin" / "python"), str(_CLIENTS), client, broker.address, topic]
        yield run(
            client,
            [*command, str(count), str(value_bytes)],
            [broker.server],
            records=count,
            value_bytes=value_bytes,
        )
    broker.make_topic(f"java-{value_bytes}")
    yield java(broker, f"java-{value_bytes}", records, value_bytes)


def performance(broker: Broker, topic: str, records: int, value_bytes: int, *, batch_bytes: int) -> str:
    """Send records with Kafka's ProducerPerformance, as fast as it can, and return what it said."""
    load = ["--topic", topic, "--num-records", str(records), "--record-size", str(value_bytes), "--throughput", "-1"]
    properties = [f"bootstrap.servers={broker.address}", "acks=all", "linger.ms=5", f"batch.size={batch_bytes}"]
    arguments = [*load, "--producer-props", *properties]
    return run_tool("org.apache.kafka.tools.ProducerPerformance", arguments, broker.logging)


def java(broker: Broker, topic: str, records: int, value_bytes: int, system: str = "Java ProducerPerformance") -> Sent:
    """Measure Kafka's own ProducerPerformance. Its CPU includes JVM start-up, so give it enough records."""
    before, own = broker.server.cpu_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    said = performance(broker, topic, records, value_bytes, batch_bytes=1_048_576)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = _RATE.findall(said)
    if not found or int(found[-1][0]) != records:
        raise RuntimeError(f"ProducerPerformance failed:\n{said}")
    return Sent(
        system=system,
        records=records,
        seconds=records / float(found[-1][1]),
        client_cpu_seconds=used.ru_utime + used.ru_stime - own.ru_utime - own.ru_stime,
        server_cpu_seconds=broker.server.cpu_seconds() - before,
    )
