"""Runs clients' own tests of themselves against a gateway, and prints what fails that is not allowed to.

``franz-go``: the tests of its package pkg/kgo, by Go. ``kafka-python``: its integration tests, from a checkout of its repository
(``--kafka-python DIRECTORY``), with that checkout's client; without one they are left out.

``suites_allowed.txt`` has a line for each test that fails, with the reason. A line whose test passes is a failure, too: it is to
go. ``--servers`` names another address, such as a real broker's. Long tests of franz-go (``TestGroupETL``, ``TestTxnEtl``,
``TestShareGroup``) come with ``--run``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.support.kafka_gateway import kafka_gateway

_HERE: Final = Path(__file__).parent
_PACKAGE: Final = "github.com/twmb/franz-go/pkg/kgo"
USUAL: Final = (
    "TestConsume|TestIssue|TestPing|TestPool|TestGroupSimple|TestDirect|TestAddRemove|TestPause|TestUnknownGroup|TestMaxVersions"
    "|TestHookPollStart"
)
SECONDS_MAX: Final = 900
TEST_SECONDS_MAX: Final = 120
KAFKA_VERSION: Final = "4.2"
"""As which kafka-python's tests take the gateway."""
PARTITIONS: Final = "4"
"""Of topics that tests make by naming them, as in kafka-python's own brokers."""
_PYTHON_SUITES: Final = ("producer", "consumer", "admin")
_PYTHON_OUTCOME: Final = re.compile(r"^(PASSED|FAILED|ERROR) \S*::(\S+)", re.MULTILINE)
_WORDS: Final = {"PASSED": "pass", "FAILED": "fail", "ERROR": "fail"}
Outcomes = dict[str, str]
"""Of each test: ``pass``, ``fail`` or ``skip``."""


def allowed() -> dict[str, str]:
    """Reasons by the name of the test."""
    lines = (_HERE / "suites_allowed.txt").read_text().splitlines()
    return {name: reason.strip() for name, _, reason in (line.partition(": ") for line in lines if line.strip())}


def of_franz_go(servers: str, run: str) -> Outcomes:
    """Raises ``RuntimeError`` where no test ran."""
    environment = {**os.environ, "KGO_SEEDS": servers, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "5000"}
    command = ["go", "test", "-json", "-count=1", f"-timeout={SECONDS_MAX}s", "-run", run, _PACKAGE]
    done = subprocess.run(command, cwd=_HERE / "go", env=environment, capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        test, action = event.get("Test", "/"), event.get("Action")
        if "/" not in test and action in ("pass", "fail", "skip"):
            found[test] = action
    if not found:
        raise RuntimeError(f"no test ran:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def of_kafka_python(servers: str, checkout: Path) -> Outcomes:
    """Raises ``RuntimeError`` where no test ran."""
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{servers}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_ROOT": str(checkout),  # of the broker that they would start
        "PYTHONPATH": str(checkout),
    }
    files = [f"test/integration/test_{name}_integration.py" for name in _PYTHON_SUITES]
    options = ["-q", "-rA", "--tb=no", "--show-capture=no", f"--timeout={TEST_SECONDS_MAX}", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    found = {name: _WORDS[word] for word, name in _PYTHON_OUTCOME.findall(done.stdout)}
    if not found:
        raise RuntimeError(f"no test ran:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def outcomes(servers: str, run: str, checkout: Path | None) -> Outcomes:
    """Of all suites."""
    return of_franz_go(servers, run) | ({} if checkout is None else of_kafka_python(servers, checkout))


def main() -> int:
    """1 where a test fails that is not allowed to, or one passes that is said to fail."""
    options = argparse.ArgumentParser(prog="python -m tests.kafka_clients.suites", description=__doc__)
    options.add_argument("--servers", help="bootstrap servers; without it a gateway is started")
    options.add_argument("--run", default=USUAL, help="which tests of franz-go, as of go test")
    options.add_argument("--kafka-python", type=Path, help="a checkout of kafka-python's repository")
    given = options.parse_args()
    checkout = None if given.kafka_python is None else given.kafka_python.resolve()
    with tempfile.TemporaryDirectory() as directory:
        if given.servers is not None:
            found = outcomes(given.servers, given.run, checkout)
        else:
            log = Path(directory) / "log"
            with kafka_gateway(f"{directory}/store", log, "--auto-create-topics", PARTITIONS) as gateway:
                found = outcomes(gateway.kafka, given.run, checkout)
    reasons = allowed()
    wrong = 0
    for test, outcome in sorted(found.items()):
        is_wrong = (outcome == "fail") != (test in reasons)
        wrong += is_wrong
        print(f"{'!' if is_wrong else ' '} {outcome:5} {test}  {reasons.get(test, '')}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
