"""Runs Kafka's programs against a gateway of its own, one after the other, and prints what works.

``--beside`` runs each against a broker of Apache Kafka, too: what fails there as well is not the gateway's fault. ``--servers``
names another address, such as a broker's that runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka_clients.tried import (
    connect,
    console_tools,
    debezium,
    debezium_avro,
    flink,
    java_programs,
    migration,
    other_clients,
    other_languages,
    python_programs,
    registries,
    typed_clients,
)
from tests.kafka_clients.tried.programs import Failed, Missing
from tests.support.kafka_gateway import kafka_gateway

Attempt = Callable[[str, Path], str | None]
"""Returns figures, where it has some."""
CLIENTS: Final[Mapping[str, Attempt]] = {
    "kafka-topics": console_tools.topics,
    "kafka-configs": console_tools.configs,
    "kafka-console-producer, -consumer": console_tools.console,
    "kafka-consumer-groups": console_tools.groups,
    "kafka-share-groups, kafka-console-share-consumer": console_tools.share_groups,
    "kafka-delete-records, kafka-get-offsets": console_tools.delete_records,
    "kafka-verifiable-producer, -consumer": console_tools.verifiable,
    "kafka-verifiable-consumer: both protocols": migration.migration,
    "kafka-producer-perf-test, consumer-": console_tools.performance,
    "kafka-cluster, -log-dirs, -leader-election": console_tools.others,
    "kafka-acls": console_tools.acls,
    "kcat": other_clients.kcat,
    "Java: transactions": java_programs.transactions,
    "Java: share groups": java_programs.shares,
    "Java: patterns (RE2J), topics by id": java_programs.patterns,
    "franz-go": other_clients.franz,
    "sarama": other_languages.sarama,
    "kafka-go": other_languages.segmentio,
    "kafkajs": other_languages.kafkajs,
    "rskafka": other_languages.rskafka,
    "@platformatic/kafka": other_languages.platformatic,
    "FastStream, aiokafka": python_programs.faststream,
    "FastStream, confluent-kafka": python_programs.faststream_confluent,
    "Quix Streams": python_programs.quix,
    "Quix Streams: exactly-once": python_programs.quix_exactly_once,
    "Faust": python_programs.faust,
    "Faust: exactly-once": python_programs.faust_exactly_once,
    "kombu": python_programs.kombu,
    "Celery": python_programs.celery,
    "Bytewax": python_programs.bytewax,
    "Connect standalone: file": connect.standalone,
    "Debezium, Connect distributed": debezium.changes,
    "Registry: Debezium with Confluent's AvroConverter": debezium_avro.changes,
    "MirrorMaker 2": connect.mirror,
    "Kafka Streams: exactly-once v2": java_programs.streams,
    "Apicurio Registry (kafkasql)": registries.apicurio,
    "Registry: Flink's avro-confluent, Confluent's Java client": typed_clients.flink_avro,
    "Registry: Confluent's serializers for Java": typed_clients.confluent_java,
    "Registry: franz-go's sr": typed_clients.franz_registry,
    "Registry: clients in JavaScript": typed_clients.javascript,
    "Registry: python-schema-registry-client": typed_clients.python_client,
    "Registry: Quix Streams": typed_clients.quix,
    "Registry: import from Apicurio": typed_clients.imported,
    "Flink: exactly-once sink": flink.moved,
    "Spark: Kafka source and sink": other_clients.spark,
}
LARGE: Final[Mapping[str, Attempt]] = {"Flink: a large transaction": flink.large}


class Result(NamedTuple):
    """Of one client."""

    client: str
    what: str
    state: str
    reason: str
    """Why it failed or was not run, or figures."""
    seconds: float
    beside: str = ""
    """What became of it against a broker."""

    def told(self) -> str:
        """In a word, with seconds and figures."""
        figures = f" ({self.reason})" if self.state == "ok" and self.reason else ""
        return f"{self.state}, {self.seconds:.0f} s{figures}"


def main() -> int:
    """1 where a client failed."""
    options = argparse.ArgumentParser(prog="python -m tests.kafka_clients", description=__doc__)
    options.add_argument("--servers", help="bootstrap servers; without it a gateway is started")
    options.add_argument("--only", default="", help="clients whose name has one of these, comma-separated")
    options.add_argument("--beside", action="store_true", help="run each against a broker of Apache Kafka, too")
    options.add_argument("--large", action="store_true", help="run what moves hundreds of MiB, too")
    given = options.parse_args()
    parts = given.only.lower().split(",")
    clients = {**CLIENTS, **(LARGE if given.large else {})}
    wanted = {name: attempt for name, attempt in clients.items() if any(part in name.lower() for part in parts)}
    with tempfile.TemporaryDirectory(prefix="kafka-clients-") as kept:
        if given.servers:
            results = _all(wanted, given.servers, Path(kept))
        else:
            with kafka_gateway(Path(kept) / "store", Path(kept) / "log") as gateway:
                typed_clients.GATEWAYS[gateway.kafka] = f"{gateway.url}/registry"
                results = _all(wanted, gateway.kafka, Path(kept))
        if given.beside:
            directory = Path(kept) / "beside"
            directory.mkdir()
            with connect.broker(directory) as servers:
                there = _all(wanted, servers, directory)
            told = {one.client: one for one in there}
            results = [one._replace(beside=told[one.client].told()) for one in results]
    _print(results)
    return int(any(result.state == "failed" for result in results))


def _all(wanted: Mapping[str, Attempt], servers: str, kept: Path) -> list[Result]:
    results = []
    for number, (client, attempt) in enumerate(wanted.items()):
        directory = kept / f"client-{number}"
        directory.mkdir()
        results.append(_tried(client, attempt, servers, directory))
        print(f"{client}: {results[-1].state} {results[-1].reason}", file=sys.stderr, flush=True)
    return results


def _tried(client: str, attempt: Attempt, servers: str, directory: Path) -> Result:
    what = (attempt.__doc__ or "").split(":", 1)[-1].strip().rstrip(".")
    started = time.monotonic()
    state, reason, figures = "ok", "", ""
    try:
        figures = attempt(servers, directory) or ""
    except Failed as failure:
        state, reason = "failed", str(failure)
    except Missing as missing:
        state, reason = "not run", str(missing)
    except Exception as error:  # noqa: BLE001 - of one client: the others are tried all the same
        state, reason = "failed", f"{type(error).__name__}: {error}"[:300]
        traceback.print_exc()
    return Result(client, what, state, reason or figures, time.monotonic() - started)


def _print(results: list[Result]) -> None:
    print("| client | what | here | Apache Kafka | reason |\n|---|---|---|---|---|")
    for one in results:
        reason = one.reason.replace("|", "\\|").replace("\n", " ")
        print(f"| {one.client} | {one.what} | {one.state}, {one.seconds:.0f} s | {one.beside} | {reason} |")


if __name__ == "__main__":
    sys.exit(main())
