# ruff: noqa: INP001, S603, S607
"""Replay the first hour in a shell, and write its output into docs/first-hour.md between two marks.

``.venv/bin/python scripts/record_first_hour.py``. It starts a gateway on a temporary directory, runs each command in bash, and
records its standard output and standard error. A test replays the session and compares.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "first-hour.md"
BEGIN, END = "<!-- session: begin -->", "<!-- session: end -->"
SECONDS_MAX = 60
URL = "http://127.0.0.1:8080"

STEPS: tuple[str, ...] = (
    "tidelog topic create orders --partitions 2",
    """printf 'user-7:{"amount":3}\\nuser-8:{"amount":5}\\nuser-7:{"amount":4}\\n' | tidelog produce orders --key-separator :""",
    "tidelog consume orders --format '%p:%o %k %v\\n'",
    "tidelog tail orders --from -1 --until latest",
    """tidelog sql "select key, sum((value->>'amount')::int) as amount from orders group by 1 order by 1\"""",
    "tidelog consume orders --group billing --format '%k %v\\n'",
    "tidelog lag billing",
    "tidelog group reset billing --to -1",
    "tidelog consume orders --group billing --format '%k %v\\n'",
    "curl -s 'localhost:8080/v1/topics/orders/partitions/1/records?offset=earliest'",
    "python orders.py",
    "tidelog consume oders",
    "tidelog topic create clicks -c flush.mss=1s",
    "tidelog topic create clicks -c flush.ms=1s -c retention.ms=5d",
    "tidelog topic lst",
    "tidelog topic ls",
    "tidelog verify orders --store ./log",
    "tidelog group rm billing --yes",
)
"""Commands of the session. ``orders.py`` contains ``PROGRAM``."""
PROGRAM = """\
from tidelog import Consumer, Producer, read_topic

with Producer() as producer:
    print(producer.send("orders", b"from Python", key=b"user-9").result())
with Consumer("orders", group="mailer", consumer_timeout_ms=1000) as consumer:
    print(sorted(record.key for record in consumer))
print(sum(table.num_rows for table in read_topic("orders", start=-1)), "records are the last of their partitions")
"""


def recorded() -> str:
    """Return the session as a reader would see it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
        environment |= {"TIDELOG_CONFIG": os.devnull, "HOME": directory, "TERM": "dumb", "COLUMNS": "120"}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        (Path(directory) / "orders.py").write_text(PROGRAM)
        log = (Path(directory) / "gateway.log").open("w+b")
        serving = ("tidelog", "serve", "--store", "./log", "--port", "0", "--log-level", "error")
        gateway = subprocess.Popen(serving, cwd=directory, env=environment, stdout=log, stderr=log)
        try:
            banner, url = _listens(Path(log.name))
            environment["TIDELOG_URL"] = url
            shown = ["$ tidelog serve --store ./log &", banner]
            for step in STEPS:
                shown += [
                    f"$ {step}",
                    _typed(step.replace("localhost:8080", url.removeprefix("http://")), directory, environment),
                ]
        finally:
            gateway.terminate()
            gateway.wait()
            log.close()
    text = "\n".join(part for part in shown if part).replace(directory, "~").replace(url, URL)
    return "\n".join(line.rstrip() for line in text.splitlines() if "request id:" not in line)


def normalised(session: str) -> str:
    """Return the session without parts that differ by run: ids, times, durations, rates, stored sizes, tables' column
    widths, and segments, which are more if a busy machine flushes a program's records at two times."""
    session = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID", session)
    session = re.sub(r"\d{4}-\d\d-\d\d[T ][0-9:.]+", "TIME", session)
    session = re.sub(r"\b1[0-9]{12}\b", "MS", session)
    session = re.sub(r"[0-9,]+/s\b", "RATE", session)
    session = re.sub(r"\b[0-9]+ segments\b", "COUNT segments", session)
    session = re.sub(r"\b[0-9,]{3,}\b", "SIZE", session)
    session = re.sub(r"\b[0-9]+\.[0-9]+\b", "NUMBER", session)
    return re.sub(r" +", " ", session)


def _listens(log: Path) -> tuple[str, str]:
    """Return the gateway's first line, and its address."""
    for _ in range(SECONDS_MAX * 10):
        found = re.search(r"^Tidelog .* listens on (http://\S+).*$", log.read_text(), re.MULTILINE)
        if found is not None:
            return found[0], found[1]
        time.sleep(0.1)
    raise TimeoutError(log.read_text())


def _typed(command: str, directory: str, environment: dict[str, str]) -> str:
    ended = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS_MAX,
        check=False,
    )
    return ended.stdout.decode().rstrip("\n")


def put(session: str, document: Path) -> None:
    """Write the session between the document's two marks."""
    block = f"{BEGIN}\n```console\n{session}\n```\n{END}"
    text, count = re.subn(
        re.escape(BEGIN) + ".*" + re.escape(END), lambda _: block, document.read_text(), flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit(f"{document} has no place for the session")
    document.write_text(text)


if __name__ == "__main__":
    put(recorded(), DOCUMENT)
