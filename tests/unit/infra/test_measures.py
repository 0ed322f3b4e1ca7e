"""CloudWatch counts what the programs log: each pattern of the module observability matches the lines that mean it, and no
others.

The lines are a gateway's or maintenance's. A renamed field silences no alarm.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from log_format import layout
from tests.support.gateway_process import running_gateway
from tests.support.waiting import until

MODULE = Path(__file__).resolve().parents[3] / "infra/terraform/modules/observability/main.tf"
DAYS_2 = 2 * 86_400
MEASURE = r'^    (\w+) = \{\n +group += var\.(\w+)_log_group_name\n +pattern += "((?:[^"\\]|\\.)*)"\n +value += "(.*)"'

Line = dict[str, Any]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Line]]:
    """What a gateway logs that takes records and can't drain a topic, and maintenance that finds an orphan and topics whose log
    is damaged."""
    directory = tmp_path_factory.mktemp("measured")
    store = directory / "store"
    with running_gateway(store, directory / "log", "--log-level", "info") as gateway:
        http = gateway.http
        assert http.post("/v1/topics", json={"name": "t", "partition_count": 1}).status_code == 201
        for path in ("topics/t/records", "topics/t/partitions/0/records"):
            assert http.post(f"/v1/{path}", json={"records": [{"value": "x"}]}).status_code == 200
        assert http.get("/v1/topics/t/partitions/0/records?offset=0").status_code == 200
        gateway.topic("quiet", commit_mode="shared", drain_ms=1000)
        assert http.post("/v1/topics/quiet/records", json={"records": [{"value": "x"}]}).status_code == 200
        (store / "topics/quiet/_delta_log" / f"{1:020d}.json").write_text("damaged")
        until(lambda: "drained" in (directory / "log").read_text(), 60)
    orphan = store / "topics/t" / layout.SEGMENTS / "orphan.parquet"
    orphan.write_bytes(b"x")
    os.utime(orphan, (time.time() - DAYS_2,) * 2)
    damaged = store / "topics/damaged/_delta_log" / f"{0:020d}.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("damaged")
    command = [sys.executable, "-m", "compaction", "--store", str(store), "--workers", "local", "--once", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1, done.stderr
    return {
        "gateway": [json.loads(line) for line in (directory / "log").read_text().splitlines()],
        "maintenance": [json.loads(line) for line in done.stdout.splitlines()],
    }


MEANT: dict[str, Callable[[Line], bool]] = {
    "acknowledgement_ms": lambda line: line.get("method") == "POST" and "/records" in line["path"],
    "drain_failures": lambda line: line["event"].startswith("topic quiet "),
    "maintenance_rounds": lambda line: line["event"] == "round",
    "maintenance_failures": lambda line: line.get("topic") in {"damaged", "quiet"},
    "waiting_segments": lambda line: line["event"] == "round",
    "orphans": lambda line: "orphan" in line.get("key", ""),
}
"""By measure, the lines that are one; of refusals and failures there is none in what happened."""


def test_every_measure_counts_what_it_means(lines: dict[str, list[Line]]) -> None:
    """Each matches the lines meant and takes its value from a number in them; refusals and failures go by the status."""
    measures = re.findall(MEASURE, MODULE.read_text(), re.MULTILINE)
    assert {name for name, *_ in measures} == {*MEANT, "refusals", "failures"}
    for name, group, pattern, value in measures:
        found = [line for line in lines[group] if matches(pattern.replace('\\"', '"'), line)]
        if name in MEANT:
            assert found == [line for line in lines[group] if MEANT[name](line)] != [], name
        else:
            assert found == []
            refused = [{**line, "status": status} for line in lines[group] for status in (200, 429, 500, 503, 504)]
            counted = {line["status"] for line in refused if matches(pattern.replace('\\"', '"'), line)}
            assert counted == ({429, 503} if name == "refusals" else {500, 504})
        assert value == "1" or all(isinstance(line[value.removeprefix("$.")], int | float) for line in found)


def matches(pattern: str, line: Line) -> bool:
    """Whether a line has what the pattern asks for: comparisons joined by ``&&``, and by ``||`` in parentheses."""
    clauses = pattern.strip("{} ").split(" && ")
    return all(any(_holds(each, line) for each in clause.strip("()").split(" || ")) for clause in clauses)


def _holds(comparison: str, line: Line) -> bool:
    found = re.fullmatch(r'\$\.(\w+) = (?:"([^"]*)"|(\d+))', comparison)
    assert found is not None, comparison
    name, text, number = found.groups()
    value = line.get(name)
    if text is not None:
        return isinstance(value, str) and fnmatchcase(value, text)
    return value == int(number)
