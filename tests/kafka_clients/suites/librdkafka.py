"""librdkafka: its own tests that talk to a broker, from a checkout, each number in a process of its own, two of them in parts.

``librdkafka-noautocreate``: those of them that want no topic made by being named. Tests against librdkafka's mock of a broker are
left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tests.kafka_clients.suites.suite import KAFKA_VERSION, NothingRan, Outcomes, Place, Suite, output_of
from tests.kafka_clients.tried.programs import java

_TEST_SECONDS_MAX: Final = 240
_ROW: Final = re.compile(r"_TEST\((\w+),\s*([^,)]+)(.*?)\),?\n(?=\s*(?:_TEST|#|/\*|\{NULL))", re.DOTALL)
_IN_PARTS: Final = ("0081_admin", "0103_transactions")
"""Tests with many parts, of which a few may fail."""
_PART: Final = re.compile(r"^(?:static )?void\s+(do_test_\w+)\(", re.MULTILINE)
_SCENARIO: Final = re.compile(r'\.scenario\s*=\s*"([^"]+)"')
_WORDS: Final = {"PASSED": "pass", "FAILED": "fail", "SKIPPED": "skip"}
_TOOLS: Final = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
}
"""That tests start from ``KAFKA_PATH``."""


def _run(scenario: str, place: Place) -> Outcomes:
    tests = _built(place.sources)
    names = _names((tests / "test.c").read_text(), scenario)
    configuration = place.directory / "test.conf"
    configuration.write_text(f"bootstrap.servers={place.servers}\ntest.topic.random=true\n")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{place.sources}/src:{place.sources}/src-cpp",
        "RDKAFKA_TEST_CONF": str(configuration),
        "KAFKA_VERSION": KAFKA_VERSION,
        "TEST_SCENARIO": scenario,
        "KAFKA_PATH": str(_tools(place.directory)),
        "BROKERS": place.servers,
    }
    found: Outcomes = {}
    chosen = None if place.chosen is None else place.chosen.split(",")
    for number in sorted({name[:4] for name in names}):
        if chosen is None or number in chosen:
            own = [name for name in names if name.startswith(number)]
            for part in _parts(tests, own):
                found |= _told(tests, environment, place.directory, own, part)
    if not found:
        raise NothingRan(f"none of {place.chosen}")
    return found


def _parts(tests: Path, names: Sequence[str]) -> list[str]:
    """The functions that a test runs one after the other, or an empty word: it is run as a whole."""
    if names[0] not in _IN_PARTS:
        return [""]
    source = (tests / f"{names[0].replace('_', '-')}.c").read_text()
    return list(dict.fromkeys(_PART.findall(source)))


def _told(tests: Path, environment: Mapping[str, str], directory: Path, names: Sequence[str], part: str) -> Outcomes:
    """Outcomes of tests of one number, or of a part of the only one; a part that is none of this run has no outcome."""
    number = names[0][:4]
    report, log = directory / f"{number}{part}.json", directory / f"{number}{part}.log"
    chosen = {"TESTS": number, "TEST_REPORT": str(report)} | ({"SUBTESTS": f"{part}:"} if part else {})
    command = ["./test-runner", "-p1", "-L", "-Q"]
    told = output_of(command, tests, {**environment, **chosen}, log, seconds=_TEST_SECONDS_MAX)
    if part:
        return {f"{names[0]}/{part}": _outcome(report, names[0])} if f"[ {part}:" in told else {}
    return {name: _outcome(report, name) for name in names}


def _outcome(report: Path, name: str) -> str:
    """A test without a report has failed: its process is gone."""
    if not report.exists():
        return "fail"
    told = json.loads(report.read_text())["tests"].get(name, {"state": "FAILED"})
    return _WORDS.get(told["state"], "fail")


def _names(source: str, scenario: str) -> list[str]:
    """Tests of a scenario that need a broker and no hand."""
    table = source[source.index("struct test tests[]") :]
    found = []
    for name, flags, more in _ROW.findall(table):
        scenarios = _SCENARIO.search(more)
        if "LOCAL" not in flags and "MANUAL" not in flags:
            found += [name] if scenario in (scenarios[1] if scenarios else "default").split(",") else []
    return found


def _built(checkout: Path) -> Path:
    """Its directory of tests, with the program that runs them: built in the checkout, once."""
    tests = checkout / "tests"
    if not (tests / "test-runner").exists():
        for command in (
            ["./configure", "--disable-gssapi"],
            ["make", "-j2", "libs"],
            ["make", "-j2", "-C", "tests", "build"],
        ):
            subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.DEVNULL)
    return tests


def _tools(directory: Path) -> Path:
    """A directory with Kafka's tools in ``bin``, as in a distribution of Kafka."""
    place = directory / "kafka"
    (place / "bin").mkdir(parents=True)
    for name, main_class in _TOOLS.items():
        script = place / "bin" / f"{name}.sh"
        script.write_text("#!/bin/sh\nexec " + " ".join(f"'{part}'" for part in java(main_class)) + ' "$@"\n')
        script.chmod(0o755)
    return place


def _choosing(tests: Sequence[str]) -> str:
    """Their numbers."""
    return ",".join(sorted({test[:4] for test in tests}))


_SUITE: Final = Suite(name="librdkafka", run=partial(_run, "default"), choosing=_choosing, needs_checkout=True)
SUITES: Final = (
    _SUITE,
    replace(_SUITE, name="librdkafka-noautocreate", run=partial(_run, "noautocreate"), partitions=0),
)
