"""Karapace: its integration tests of the registry's API, from a checkout, with that checkout's client.

Their fixtures start a broker and Karapace; ``karapace_fixtures`` has others, which name the registry that runs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.kafka_clients.suites.suite import NothingRan, Outcomes, Place, Suite, output_of
from tests.kafka_clients.tried.programs import HERE, kept

_SECONDS_MAX: Final = 1200
_TEST_SECONDS_MAX: Final = 60
_FILES: Final = (
    "client",
    "client_protobuf",
    "dependencies_compatibility_protobuf",
    "jsonschema",
    "schema",
    "schema_avro_references",
    "schema_compatibility",
    "schema_protobuf",
    "schema_registry_mode",
)
_OUTCOME: Final = re.compile(r"^(PASSED|FAILED|ERROR) tests/integration/test_(\w+)\.py::(.+?)(?: - .*)?$", re.MULTILINE)
_WORDS: Final = {"PASSED": "pass", "FAILED": "fail", "ERROR": "fail"}
_NEEDED: Final = (
    *("accept-types", "aiohttp", "aiokafka<0.13.0", "async_lru", "attrs", "avro", "cachetools", "confluent-kafka"),
    *(
        "cryptography",
        "dependency-injector",
        "fastapi",
        "isodate",
        "jsonschema",
        "lz4",
        "networkx",
        "opentelemetry-api",
    ),
    *("opentelemetry-exporter-otlp", "opentelemetry-proto<1.28.0", "opentelemetry-sdk", "orjson", "prometheus-client"),
    *("prometheus-fastapi-instrumentator", "protobuf==3.20.3", "pydantic", "pydantic-settings", "pyjwt", "pytest"),
    *("pytest-timeout", "python-dateutil", "python-snappy", "requests", "tenacity", "typing-extensions", "ujson"),
    *("watchfiles", "yarl", "zstandard"),
)
"""What Karapace's modules import, and its tests."""


def _run(place: Place) -> Outcomes:
    paths = (place.sources / "src", place.sources, HERE / "python")
    environment = {**os.environ, "REGISTRY_URL": place.registry, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    options = [
        *("-c", os.devnull, "--rootdir", str(place.sources), "--import-mode=importlib", "-p", "no:cacheprovider"),
        *("--noconftest", "-p", "karapace_fixtures", "-q", "-rA", "--tb=short", "--show-capture=no"),
        f"--timeout={_TEST_SECONDS_MAX}",
    ]
    chosen = [] if place.chosen is None else ["-k", place.chosen]
    files = [f"tests/integration/test_{name}.py" for name in _FILES]
    command = [str(_python()), "-m", "pytest", *options, *chosen, *files]
    told = output_of(command, place.sources, environment, place.directory / "log", seconds=_SECONDS_MAX)
    found = {f"{file}::{_plain(name)}": _WORDS[word] for word, file, name in _OUTCOME.findall(told)}
    if not found:
        raise NothingRan(told[-3000:])
    return found


def _plain(name: str) -> str:
    """Of a test with the name of the event loop in its parameters."""
    return name.replace("[pyloop]", "").replace("[pyloop-", "[")


def _python() -> Path:
    """Of an environment with what Karapace needs, made once."""
    place = kept() / "karapace"
    python, complete = place / "bin" / "python", place / "complete"
    if not complete.exists() or complete.read_text() != "\n".join(_NEEDED):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *_NEEDED], check=True)
        complete.write_text("\n".join(_NEEDED))
    return python


def _choosing(tests: Sequence[str]) -> str:
    """For ``-k``."""
    return " or ".join(sorted({test.partition("::")[2].partition("[")[0] for test in tests}))


SUITE: Final = Suite(name="karapace", run=_run, choosing=_choosing, needs_checkout=True, is_of_registry=True)
