"""kafkajs: its tests of administrator, producer, consumer, cluster and broker, from a checkout; in a copy of it with one broker's
address in place of three."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.kafka_clients.suites.suite import NothingRan, Outcomes, Place, Suite, output_of
from tests.kafka_clients.tried.programs import java, kept

_SECONDS_MAX: Final = 2400
_PARTS: Final = ("src/admin", "src/producer", "src/consumer", "src/cluster", "src/broker/__tests__")
_COPIED: Final = ("src", "testHelpers", "scripts", "types", "index.js", "package.json", "jest.config.js")
_WORDS: Final = {"passed": "pass", "failed": "fail", "pending": "skip"}


def _run(place: Place) -> Outcomes:
    copy = _copied(place)
    report = place.directory / "report.json"
    environment = {
        **os.environ,
        "KAFKA_VERSION": "2.4",  # the newest that it knows
        "NODE_ENV": "test",
        "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1",
    }
    options = ["--ci", "--maxWorkers=2", "--no-watchman", "--forceExit", "--reporters=default"]
    chosen = [] if place.chosen is None else ["-t", place.chosen]
    command = ["node_modules/.bin/jest", *options, "--json", f"--outputFile={report}", *chosen, *_PARTS]
    told = output_of(command, copy, environment, place.directory / "log", seconds=_SECONDS_MAX)
    if not report.exists():
        raise NothingRan(told[-3000:])
    return _outcomes(json.loads(report.read_text()))


def _outcomes(report: dict[str, list[dict[str, list[dict[str, object]]]]]) -> Outcomes:
    """By the tests' full names; of several with one name it failed where one did."""
    found: Outcomes = {}
    for file in report["testResults"]:
        for one in file["assertionResults"]:
            name, word = " > ".join([*_strings(one["ancestorTitles"]), str(one["title"])]), _WORDS[str(one["status"])]
            found[name] = "fail" if "fail" in (word, found.get(name)) else word
    return found


def _strings(titles: object) -> list[str]:
    return [str(title) for title in titles] if isinstance(titles, list) else []


def _copied(place: Place) -> Path:
    copy = place.directory / "kafkajs"
    copy.mkdir()
    for name in _COPIED:
        source = place.sources / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, copy / name)
    (copy / "node_modules").symlink_to(_modules(place.sources))
    helpers = copy / "testHelpers" / "index.js"
    text = re.sub(r"\b9092\b", place.port, helpers.read_text())
    helpers.write_text(re.sub(r"\[`\$\{host\}:\d+`, .*9098`\]", f"[`${{host}}:{place.port}`]", text))
    command = java("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", place.servers, "--alter")
    script = copy / "scripts" / "addPartitions.sh"  # which asks a container of Docker
    quoted = " ".join(f"'{part}'" for part in command)
    script.write_text(f'#!/bin/sh\nexec {quoted} --topic "$TOPIC" --partitions "$PARTITIONS"\n')
    script.chmod(0o755)
    return copy


def _modules(checkout: Path) -> Path:
    """What it and its tests need, fetched once by npm."""
    place = kept() / "kafkajs-tests"
    if not (place / "complete").exists():
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy2(checkout / "package.json", place)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run(command, cwd=place, check=True)
        (place / "complete").touch()
    return place / "node_modules"


def _choosing(tests: Sequence[str]) -> str:
    """For ``-t``, which looks for titles behind one another; some have a ``>`` of their own."""
    return "|".join(" (> )?".join(map(re.escape, test.split(" > "))) for test in tests)


SUITE: Final = Suite(name="kafkajs", run=_run, choosing=_choosing, needs_checkout=True, partitions=2)
