"""confluent-kafka-python: its integration tests of administrator, consumer, producer and share consumer, and of the registry's
client and serializers.

From a checkout, with the package of the checkout's version.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.kafka_clients.suites.suite import NothingRan, Outcomes, Place, Suite, output_of
from tests.kafka_clients.tried.programs import kept

_SECONDS_MAX: Final = 2400
_TEST_SECONDS_MAX: Final = 180
_PARTS: Final = ("admin", "consumer", "producer", "share_consumer")
_OF_REGISTRY: Final = ("schema_registry/_sync", "serialization")
"""Those of asyncio start brokers of their own."""
_OUTCOME: Final = re.compile(r"^tests/integration/\S*?(\w+)\.py::(.+?) (PASSED|FAILED|ERROR|SKIPPED)\b", re.MULTILINE)
_WORDS: Final = {"PASSED": "pass", "FAILED": "fail", "ERROR": "fail", "SKIPPED": "skip"}
_NEEDED: Final = ("pytest", "pytest-timeout", "pytest-asyncio", "async-timeout", "psutil", "requests-mock", "respx")
_VERSION: Final = re.compile(r'^version\s*=\s*"([^"]+)"', re.MULTILINE)


def _run(place: Place, wanted: Sequence[str] = _PARTS) -> Outcomes:
    environment = {**os.environ, "BROKERS": place.servers, "SR_URL": place.registry}
    environment.pop("PYTHONPATH", None)
    options = [
        "-v",
        "--tb=short",
        "--show-capture=no",
        f"--timeout={_TEST_SECONDS_MAX}",
        "-p",
        "no:cacheprovider",
    ]
    chosen = [] if place.chosen is None else ["-k", place.chosen]
    parts = [f"tests/integration/{part}" for part in wanted]
    command = [str(_python(place.sources)), "-m", "pytest", *options, *chosen, *parts]
    told = output_of(command, place.sources, environment, place.directory / "log", seconds=_SECONDS_MAX)
    found = {f"{file}::{name}": _WORDS[word] for file, name, word in _OUTCOME.findall(told)}
    if not found:
        raise NothingRan(told[-3000:])
    return found


def _python(checkout: Path) -> Path:
    """Of an environment with the package, and what its tests need, made once for each version."""
    found = _VERSION.search((checkout / "pyproject.toml").read_text())
    if found is None:
        raise NothingRan(f"no version in {checkout}/pyproject.toml")
    place = kept() / f"confluent-kafka-{found[1]}"
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        package = f"confluent-kafka[schemaregistry,avro,json,protobuf,rules]=={found[1]}"
        trivup = [str(path) for path in sorted((checkout / "tests" / "trivup").glob("*.tar.gz"))]
        subprocess.run([str(python), "-m", "pip", "install", "-q", package, *_NEEDED, *trivup], check=True)
        (place / "complete").touch()
    return python


def _choosing(tests: Sequence[str]) -> str:
    """For ``-k``."""
    return " or ".join(sorted({test.rpartition("::")[2].partition("[")[0] for test in tests}))


SUITE: Final = Suite(name="confluent-kafka", run=_run, choosing=_choosing, needs_checkout=True)
REGISTRY: Final = Suite(
    name="confluent-kafka-registry",
    run=partial(_run, wanted=_OF_REGISTRY),
    choosing=_choosing,
    needs_checkout=True,
    is_of_registry=True,
)
