"""kafka-go: the tests of its package, with another port than 9092 written into a copy of them."""

from __future__ import annotations

import re
from typing import Final

from tests.kafka_clients.suites.go_modules import choosing, copied, run_tests
from tests.kafka_clients.suites.suite import Outcomes, Place, Suite

_OF_NO_BROKER: Final = "address_test.go"
"""Its addresses are only compared."""


def _run(place: Place) -> Outcomes:
    module = copied("github.com/segmentio/kafka-go", place.directory)
    for path in module.glob("*_test.go"):
        if path.name != _OF_NO_BROKER:
            text = re.sub(r"\b9092\b", place.port, path.read_text())
            path.write_text(text.replace('TCP("localhost")', f'TCP("localhost:{place.port}")'))
    environment = {
        "KAFKA_SKIP_NETTEST": "1",  # as its own Makefile has it
        "KAFKA_VERSION": "3.7.0",  # the newest that it knows
    }
    chosen = [] if place.chosen is None else ["-run", place.chosen]
    return run_tests("kafka-go", module, ["-mod=mod", *chosen, "."], environment, place.directory / "log")


SUITE: Final = Suite(name="kafka-go", run=_run, choosing=choosing)
