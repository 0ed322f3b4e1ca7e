"""The options of ``python -m benchmarks``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.bodies import CONTENTS
from benchmarks.harness.stores import STORES


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a benchmark is told. Each takes what concerns it."""

    store: Sequence[str]
    """Names of ``STORES``, for benchmarks that run on more than a directory."""
    seconds: float
    """The length of each load."""
    beside: Path | None
    """Another tree of the source."""
    rounds: int
    body: str
    values: Sequence[str]
    beside_rabbitmq: bool
    beside_registry: str
    """URL of another registry, which is empty."""
    waiting: int
    rate: int
    commits: int
    gibibytes: float
    megabytes: int
    records: int
    archived: int = 1_000_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare an option for each field of ``Options``."""
    parser.add_argument(
        "--store",
        nargs="+",
        choices=STORES,
        default=["directory", "minio"],
        help="ack, commits, flush, history, produce, small; requests needs minio (default: directory minio)",
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load (default 3)")
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="DIRECTORY",
        help="commits, fetch, flush, history, produce, queues, requests, small, workers: measure the source there, too, in turns",
    )
    parser.add_argument(
        "--body", default="", metavar="TEXT", help='produce: only such bodies ("arrow", "JSON x 1,000, random")'
    )
    parser.add_argument(
        "--archived", type=int, default=1_000_000, help="archive: archived segments (default 1,000,000)"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="history: of each way of reading; archive: of new gateways (default 5)"
    )
    parser.add_argument("--values", nargs="+", choices=CONTENTS, default=CONTENTS, help="history: what is read")
    parser.add_argument(
        "--beside-rabbitmq", action="store_true", help="queues: measure RabbitMQ, too (needs rabbitmq-server and pika)"
    )
    parser.add_argument(
        "--beside-registry",
        default="",
        metavar="URL",
        help="registry: measure the empty one there, too (Karapace's, Apicurio's)",
    )
    parser.add_argument("--waiting", type=int, default=200_000, help="delays: records that wait (default 200000)")
    parser.add_argument("--rate", type=int, default=5_000, help="delays: records due a second (default 5000)")
    parser.add_argument("--commits", type=int, default=200_000, help="long-history: of the history (default 200000)")
    parser.add_argument(
        "--gibibytes",
        type=float,
        default=1,
        help="maintenance-memory: of the topic (default 1); of much less no keys are compacted",
    )
    parser.add_argument(
        "--records",
        type=int,
        default=500_000,
        help="typed: that Spark reads (default 500000; decision 101 has 5000000)",
    )
    parser.add_argument("--megabytes", type=int, default=400, help="collect: log lines (default 400)")
