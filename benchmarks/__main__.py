"""``python -m benchmarks [NAME …]``: measure and print; with ``--write`` also replace the results in benchmarks/README.md.

``python -m benchmarks pace`` and ``python -m benchmarks topics`` have options of their own (``--help``).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import psutil

from benchmarks import (
    acknowledgement,
    bodies,
    delays,
    fetch,
    flush,
    gateways,
    groups,
    history,
    kafka_listener,
    maintenance,
    processes,
    produce,
    queues,
    quotas,
    sdk,
    security,
    small,
    spark,
    startup,
    store_requests,
    swarm,
    workers,
    zones,
)
from benchmarks.report import Table, with_results
from log_format.stores import open_store
from log_format.version import __version__

README = Path(__file__).with_name("README.md")

_History = Callable[[str, dict[str, str], list[processes.Server], str], Iterator[Table]]
"""Readers of history on a store, with its environment, servers and name."""


def _on_directory(
    seconds: float,
    names: set[str],
    beside: Path | None,
    body: str,
    measured_history: _History,
    *,
    beside_rabbitmq: bool,
) -> Iterator[Table]:
    if "produce" in names:
        with processes.directory() as store:
            yield from produce.measure(store, {}, [], seconds, "directory store", beside, body)
    if "ack" in names:
        with processes.directory() as store, processes.gateway(store) as server:
            yield from acknowledgement.measure(server, open_store(store), seconds, "directory store")
    if "flush" in names:
        with processes.directory() as store:
            yield from flush.measure(store, {}, seconds, "directory store", beside)
    if "small" in names:
        with processes.directory() as store:
            yield from small.measure(store, {}, seconds, "directory store", beside)
    if "fetch" in names:
        with processes.directory() as store:
            yield from fetch.measure(store, seconds * 2, beside)
    if "history" in names:
        with processes.directory() as store:
            yield from measured_history(store, {}, [], "directory store")
    if "startup" in names:
        with processes.directory() as store:
            yield from startup.startup(store)
    if "memory" in names:
        with processes.directory() as store, processes.gateway(store) as server:
            yield from startup.memory(server, seconds * 2)
    if "gateways" in names:
        with processes.directory() as store:
            yield from gateways.measure(store, min(seconds, gateways.SECONDS_MAX))
    if "workers" in names:
        yield from workers.measure(seconds, beside)
    if "groups" in names:
        yield from groups.measure(seconds)
    if names & {"groups", "swarm"}:
        yield from swarm.measure(seconds)
    if "queues" in names:
        yield from queues.measure(seconds, beside, beside_rabbitmq=beside_rabbitmq)


def _on_minio(
    seconds: float, names: set[str], beside: Path | None, body: str, measured_history: _History
) -> Iterator[Table]:
    with contextlib.ExitStack() as stack:
        uri, environment, minio = stack.enter_context(processes.minio())
        if "flush" in names:
            yield from flush.measure(uri, environment, seconds, "MinIO", beside)
        if "small" in names:
            yield from small.measure(uri, environment, seconds, "MinIO", beside)
        if "requests" in names:
            yield from store_requests.measure(uri, environment, minio, seconds, beside)
        if "history" in names:
            yield from measured_history(uri, environment, [minio], "MinIO")
        if "produce" in names:
            yield from produce.measure(f"{uri}/produce", environment, [minio], seconds, "MinIO", beside, body)
        if "ack" in names:
            server = stack.enter_context(processes.gateway(uri, environment))
            with mock.patch.dict(os.environ, environment):
                raw = open_store(uri)
            yield from acknowledgement.measure(server, raw, seconds, "MinIO")


def _history_of(arguments: argparse.Namespace) -> _History:
    def measured(uri: str, environment: dict[str, str], servers: list[processes.Server], where: str) -> Iterator[Table]:
        return history.measure(
            uri,
            environment,
            servers,
            arguments.seconds,
            where,
            rounds=arguments.rounds,
            contents=arguments.values,
            beside=arguments.beside,
        )

    return measured


def _asked() -> argparse.Namespace:
    usual = ["produce", "ack", "flush", "fetch", "startup", "memory", "gateways", "groups", "queues", "requests"]
    usual += ["sdk", "spark"]
    known = [*usual, "delays", "history", "kafka", "small", "swarm", "security", "workers", "zones", "maintenance"]
    known += ["maintenance-memory"]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", default=usual, help=f"of {', '.join(known)}; without: {', '.join(usual)}")
    parser.add_argument("--store", choices=["directory", "minio", "both"], default="both")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load (default 3)")
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="DIRECTORY",
        help="fetch, flush, history, produce, queues, small, workers: measure the source there, too, turn by turn",
    )
    parser.add_argument(
        "--body", default="", metavar="TEXT", help='produce: only such bodies ("arrow", "JSON x 1,000, random")'
    )
    parser.add_argument(
        "--beside-rabbitmq", action="store_true", help="queues: measure RabbitMQ, too (needs rabbitmq-server and pika)"
    )
    parser.add_argument("--write", action="store_true", help="replace these results in benchmarks/README.md")
    parser.add_argument("--waiting", type=int, default=200_000, help="delays: records that wait (default 200000)")
    parser.add_argument("--rate", type=int, default=5_000, help="delays: records due a second (default 5000)")
    parser.add_argument("--rounds", type=int, default=5, help="history: of each way of reading (default 5)")
    parser.add_argument(
        "--values", nargs="+", choices=bodies.CONTENTS, default=bodies.CONTENTS, help="history: what is read"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return arguments


def _measured(arguments: argparse.Namespace) -> Iterator[Table]:
    names, measured_history = set(arguments.names), _history_of(arguments)
    if arguments.store != "minio":
        yield from _on_directory(
            arguments.seconds,
            names,
            arguments.beside,
            arguments.body,
            measured_history,
            beside_rabbitmq=arguments.beside_rabbitmq,
        )
    on_minio = {"produce", "ack", "flush", "history", "requests", "small"}
    if arguments.store != "directory" and names & on_minio:
        yield from _on_minio(arguments.seconds, names, arguments.beside, arguments.body, measured_history)
    if "delays" in names:
        with processes.directory() as store, processes.gateway(store) as server:
            yield from delays.measure(server, arguments.waiting, arguments.rate, arguments.seconds)
    if "security" in names:
        yield from security.measure(arguments.seconds)
        yield from quotas.measure()
    if "zones" in names:
        yield from zones.measure(arguments.seconds)
    if "sdk" in names:
        yield from sdk.measure()
    if "kafka" in names:
        yield from kafka_listener.measure()
    if "spark" in names:
        yield from spark.measure()
    if "maintenance" in names:
        yield from maintenance.measure()
    if "maintenance-memory" in names:
        yield from maintenance.large()


def main() -> int:
    """Run the chosen benchmarks."""
    if sys.argv[1:2] in (["pace"], ["topics"]):
        # Programs of their own: the processes that they start need not import what all other benchmarks need.
        os.execv(sys.executable, [sys.executable, "-m", f"benchmarks.{sys.argv[1]}", *sys.argv[2:]])
    arguments = _asked()
    tables = list(_measured(arguments))
    if arguments.write:
        about = (
            f"Tidelog {__version__}, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores ({platform.machine()}), "
            f"{psutil.virtual_memory().total / 2**30:.0f} GiB, Python {platform.python_version()}; the load generator, "
            f"the gateway and the store share the cores, and other work may run beside them."
        )
        README.write_text(with_results(README.read_text(), about, tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
