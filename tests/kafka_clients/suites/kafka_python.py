"""kafka-python: its integration tests of producer, consumer and administrator, from a checkout, with that checkout's client."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Final

from tests.kafka_clients.suites.suite import NothingRan, Outcomes, Place, Suite, output_of

_SECONDS_MAX: Final = 1800
_TEST_SECONDS_MAX: Final = 120
_PARTS: Final = ("producer", "consumer", "admin")
_OUTCOME: Final = re.compile(r"^(PASSED|FAILED|ERROR) \S*::(\S+)", re.MULTILINE)
_WORDS: Final = {"PASSED": "pass", "FAILED": "fail", "ERROR": "fail"}


def _run(place: Place) -> Outcomes:
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{place.servers}",
        "KAFKA_VERSION": "4.2",
        "KAFKA_ROOT": str(place.sources),  # of the broker that they would start
        "PYTHONPATH": str(place.sources),
    }
    files = [f"test/integration/test_{part}_integration.py" for part in _PARTS]
    options = [
        "-q",
        "-rA",
        "--tb=short",
        "--show-capture=no",
        f"--timeout={_TEST_SECONDS_MAX}",
        "-p",
        "no:cacheprovider",
    ]
    chosen = [] if place.chosen is None else ["-k", place.chosen]
    command = [sys.executable, "-m", "pytest", *options, *chosen, *files]
    told = output_of(command, place.sources, environment, place.directory / "log", seconds=_SECONDS_MAX)
    found = {name: _WORDS[word] for word, name in _OUTCOME.findall(told)}
    if not found:
        raise NothingRan(told[-3000:])
    return found


def _choosing(tests: Sequence[str]) -> str:
    """For ``-k``."""
    return " or ".join(sorted({test.rpartition("::")[2].partition("[")[0] for test in tests}))


SUITE: Final = Suite(name="kafka-python", run=_run, choosing=_choosing, needs_checkout=True)
