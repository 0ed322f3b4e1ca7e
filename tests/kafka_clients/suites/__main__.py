"""Runs clients' own tests of themselves against a gateway, and prints what fails that is not allowed to.

========================  ==================================================================================
``suite``                 what a suite is, and where it runs
``reasons``               which tests may fail, and which are left out, each with its reason
``go_modules``            a Go module in a copy of its own, and what ``go test`` tells
``franz_go`` …            a file for each suite
``allowed/``              of each suite a line for each test that fails: ``test | reason``
``left_out/``             of each suite a line for the tests that are not run: ``pattern | reason``
========================  ==================================================================================

1. A test that fails and is not allowed to is a failure of the run. So is one that passes and is said to fail, and a line of
   ``allowed/`` whose test did not run: it is to go.
2. A test that fails without a reason is run once more, with the others that did so: many wait for a second or two, which a busy
   machine may need. The table tells which passed only then.
3. A reason that begins with ``as Apache Kafka:`` was seen there. With ``--beside`` it is a failure, too, if it is not seen.
4. Sources are run as they are. Where a suite has an address or a number of brokers written into it, a copy has another one.

Each suite has a gateway of its own. ``--beside`` runs it against a broker of Apache Kafka, too. ``--servers`` names another
address, ``--registry`` that of a schema registry. Suites of Go are fetched by Go; the others need a checkout of the client's
repository (``--kafkajs CHECKOUT``), and are left out without one.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.kafka_clients.suites import (
    apicurio,
    confluent_kafka,
    franz_go,
    kafka_go,
    kafka_python,
    kafkajs,
    karapace,
    librdkafka,
    sarama,
)
from tests.kafka_clients.suites.reasons import Row, judged, unforeseen
from tests.kafka_clients.suites.suite import NothingRan, Outcomes, Place, Suite
from tests.kafka_clients.tried.connect import broker
from tests.support.kafka_gateway import kafka_gateway
from tests.support.server_process import free_port

SUITES: Final = (
    franz_go.SUITE,
    kafka_go.SUITE,
    sarama.SUITE,
    kafka_python.SUITE,
    kafkajs.SUITE,
    confluent_kafka.SUITE,
    confluent_kafka.REGISTRY,
    *librdkafka.SUITES,
    karapace.SUITE,
    apicurio.SUITE,
)
_CHECKOUTS: Final = ("kafka-python", "kafkajs", "confluent-kafka", "librdkafka", "karapace", "apicurio")


def main() -> int:
    """1 where a test fails that is not allowed to, or one passes that is said to fail."""
    given = _options().parse_args()
    wanted = given.only.split(",") if given.only else [suite.name for suite in SUITES]
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        kept = given.logs or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-suites-")))
        for suite in SUITES:
            checkout = _checkout(given, suite)
            if suite.name not in wanted:
                continue
            if suite.needs_checkout and checkout is None:
                print(f"{suite.name}: left out, no checkout is given", file=sys.stderr)
                continue
            rows += _both(suite, kept.resolve() / suite.name, checkout, given)
    return _print(rows)


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m tests.kafka_clients.suites", description="Clients' own tests of themselves, against a gateway."
    )
    options.add_argument("--only", help="suites, comma-separated: " + ", ".join(suite.name for suite in SUITES))
    options.add_argument("--servers", help="bootstrap servers; without it each suite has a gateway of its own")
    options.add_argument("--registry", help="URL of a schema registry; without it that of the gateway")
    options.add_argument("--beside", action="store_true", help="run each against a broker of Apache Kafka, too")
    options.add_argument("--tests", help="which tests, in the words of the suite's runner (-run, -k, -t, numbers)")
    options.add_argument("--logs", type=Path, help="a new directory that keeps what the suites print")
    for name in _CHECKOUTS:
        options.add_argument(f"--{name}", type=Path, metavar="CHECKOUT", help=f"a checkout of {name}'s repository")
    return options


def _checkout(given: argparse.Namespace, suite: Suite) -> Path | None:
    """What was given for the suite, or for the one whose name begins as its own."""
    for name in _CHECKOUTS:
        path: Path | None = getattr(given, name.replace("-", "_"))
        if path is not None and suite.name.startswith(name) and suite.needs_checkout:
            return path.resolve()
    return None


def _both(suite: Suite, directory: Path, checkout: Path | None, given: argparse.Namespace) -> list[Row]:
    registry = given.registry or f"http://127.0.0.1:{free_port()}"

    def outcomes(where: str, servers: str, chosen: str | None) -> Outcomes:
        place = directory / where
        place.mkdir(parents=True)
        return suite.run(Place(servers=servers, directory=place, checkout=checkout, chosen=chosen, registry=registry))

    try:
        with _gateway(suite, directory, given, registry) as servers:
            here = outcomes("here", servers, given.tests)
            if failed := unforeseen(suite.name, here):
                once_more = outcomes("again", servers, suite.choosing(failed))
                here |= {test: "again" for test in failed if once_more.get(test) == "pass"}
        there: Outcomes = {}
        if given.beside and not suite.is_of_registry:
            with _broker(suite, directory) as servers:
                there = outcomes("beside", servers, given.tests)
    except NothingRan as nothing:
        return [Row(suite.name, "no test ran", "fail", "", str(nothing), is_wrong=True)]
    return judged(suite.name, here, there, all_ran=given.tests is None)


@contextlib.contextmanager
def _gateway(suite: Suite, directory: Path, given: argparse.Namespace, registry: str) -> Iterator[str]:
    directory.mkdir(parents=True)
    if given.servers is not None or (suite.is_of_registry and given.registry is not None):
        yield given.servers or ""
        return
    its_registry = ("--registry", registry.partition("//")[2]) if suite.is_of_registry else ()
    automatic = ("--auto-create-topics", str(suite.partitions)) if suite.partitions else ()
    store, log = directory / "store", directory / "gateway.log"
    with kafka_gateway(store, log, *automatic, *its_registry, *suite.gateway_settings, told="localhost") as gateway:
        yield gateway.kafka


@contextlib.contextmanager
def _broker(suite: Suite, directory: Path) -> Iterator[str]:
    automatic = {
        "auto.create.topics.enable": str(bool(suite.partitions)).lower(),
        "num.partitions": str(suite.partitions or 1),
    }
    with broker(directory, told="localhost", settings=automatic | dict(suite.broker_settings)) as servers:
        yield servers


def _print(rows: list[Row]) -> int:
    print("|  | suite | test | here | Apache Kafka | reason |\n|---|---|---|---|---|---|")
    for row in rows:
        cells = (row.suite, row.test, row.here, row.beside, row.reason)
        words = [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]
        print(f"| {'**!**' if row.is_wrong else ''} | {' | '.join(words)} |")
    print(
        "\n| suite | passed | passed when run again | failed for a reason | wrong | skipped |\n|---|---|---|---|---|---|"
    )
    for suite in dict.fromkeys(row.suite for row in rows):
        own = [row for row in rows if row.suite == suite]
        wrong = sum(row.is_wrong for row in own)
        words = [row.here for row in own if not row.is_wrong]
        counts = [words.count("pass"), words.count("again"), words.count("fail"), wrong, words.count("skip")]
        print(f"| {suite} | {' | '.join(map(str, counts))} |")
    return int(not rows or any(row.is_wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
