"""Records one by one into Kafka: librdkafka, Kafka's own Java producer, and kafka-python."""

from __future__ import annotations

import re
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kafka.broker import Broker, kept, tool
from benchmarks.measured_client import Sent, run

_CLIENTS = Path(__file__).with_name("clients.py")
_SECONDS_MAX = 120
_RATE = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)


def measure(broker: Broker, *, records: int, value_bytes: int) -> Iterator[Sent]:
    """One run of each client. kafka-python, twenty times slower, gets a tenth of the records."""
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


def java(broker: Broker, topic: str, records: int, value_bytes: int, system: str = "Java ProducerPerformance") -> Sent:
    """Kafka's own ProducerPerformance. Its CPU includes JVM start-up, so give it enough records."""
    arguments = [
        "--topic",
        topic,
        "--num-records",
        str(records),
        "--record-size",
        str(value_bytes),
        "--throughput",
        "-1",
    ]
    properties = [f"bootstrap.servers={broker.address}", "acks=all", "linger.ms=5", "batch.size=1048576"]
    before, own = broker.server.cpu_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        tool(
            "org.apache.kafka.tools.ProducerPerformance", [*arguments, "--producer-props", *properties], broker.logging
        ),
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = _RATE.findall(done.stdout)
    if done.returncode or not found or int(found[-1][0]) != records:
        raise RuntimeError(f"ProducerPerformance failed:\n{done.stdout}{done.stderr}")
    return Sent(
        system=system,
        records=records,
        seconds=records / float(found[-1][1]),
        client_cpu_seconds=used.ru_utime + used.ru_stime - own.ru_utime - own.ru_stime,
        server_cpu_seconds=broker.server.cpu_seconds() - before,
    )
