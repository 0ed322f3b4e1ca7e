"""Typed topics through the real commands: maintenance, proof, copies. Columns stay what they were, over versions of schemas."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.registry import Registry, record

TIDELOG = [sys.executable, "-W", "error", "-m", "tidelog"]
ORDER = record("Order", id="long")
LATER = record("Order", id="long", note=(["null", "string"], None))
DAY_MS = 86_400_000
MISFIT = "value.id: it is missing"


class Store:
    """A store with one gateway, and the commands that people run on it."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self.path = Path(gateway.store)
        self.http = httpx.Client(base_url=gateway.url, timeout=60, trust_env=False)
        self.registry = Registry(f"{gateway.url}/registry")

    def create(self, topic: str, **config: str) -> None:
        """Create a topic whose flushes wait for nothing."""
        settings = {"value.schema": f"{topic}-value", "flush.ms": "0"}
        settings |= {name.replace("_", "."): value for name, value in config.items()}
        answer = self.http.post("/v1/topics", json={"name": topic, "config": settings, "partition_count": 1})
        assert answer.status_code == 201, answer.text

    def send(self, topic: str, value: Any, **members: Any) -> httpx.Response:
        """Produce one record, by a flush of its own."""
        return self.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": value, **members}]})

    def table(self, topic: str) -> pa.Table:
        """The topic's table as a Delta reader reads it, by offset."""
        return self.delta(topic).to_pyarrow_table().sort_by("offset")

    def delta(self, topic: str) -> DeltaTable:
        """The topic's table."""
        return DeltaTable(str(self.path / "topics" / topic))

    def run(self, *words: str) -> str:
        """Run a command that succeeds; what it wrote."""
        ended = subprocess.run([*TIDELOG, *words], capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One for all tests here; each has its own topic and subject."""
    folder = tmp_path_factory.mktemp("typed")
    with running_gateway(folder / "store", folder / "log") as gateway:
        made = Store(gateway)
        yield made
        made.http.close()
        made.registry.close()


def maintained(store: Store, topic: str) -> None:
    """One round of maintenance over the topic, which is proved before and after."""
    for command in ("verify", "maintain", "verify"):
        words = [topic, "--store", str(store.path)]
        if command == "maintain":
            words = ["--store", str(store.path), "--topic", topic, "--once", "--workers", "local"]
        store.run(command, *words)


def test_keys_are_compacted_and_segments_merged_over_two_versions(store: Store) -> None:
    """The newest record of each key keeps its columns, or the reason why it has none; merged segments have statistics."""
    store.registry.register("keyed-value", ORDER)
    store.create("keyed", cleanup_policy="compact", data_on_error="mark")
    for number in range(20):
        assert store.send("keyed", {"id": number}, key=f"k{number % 5}").status_code == 200
    store.registry.register("keyed-value", LATER)
    for number in range(20, 40):
        value = {} if number == 38 else {"id": number, "note": f"n{number}"}
        assert store.send("keyed", value, key=f"k{number % 5 + 3}").status_code == 200
    files = len(store.delta("keyed").file_uris())
    maintained(store, "keyed")
    assert len(store.delta("keyed").file_uris()) < files / 4
    newest = {
        row["key"].decode(): (row["data"], row["data_error"])
        for row in store.table("keyed").select(["key", "data", "data_error"]).to_pylist()
    }
    assert newest == {
        "k0": ({"id": 15, "note": None}, None),
        "k1": ({"id": 16, "note": None}, None),
        "k2": ({"id": 17, "note": None}, None),
        "k3": ({"id": 35, "note": "n35"}, None),
        "k4": ({"id": 36, "note": "n36"}, None),
        "k5": ({"id": 37, "note": "n37"}, None),
        "k6": (None, MISFIT),
        "k7": ({"id": 39, "note": "n39"}, None),
    }
    assert {39} <= {stats["maxValues"]["data"]["id"] for stats in statistics(store, "keyed")}


def statistics(store: Store, topic: str) -> list[dict[str, Any]]:
    """The statistics of the newest commits that add files."""
    commits = sorted((store.path / "topics" / topic / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    return [
        json.loads(action["add"]["stats"]) for action in actions if "add" in action and not action["add"]["dataChange"]
    ]


def test_retention_leaves_the_columns_of_what_stays(store: Store) -> None:
    """Old segments go as a whole, and the columns that only they had stay in the table."""
    store.registry.register("old-value", LATER)
    store.create("old", retention_ms=str(DAY_MS))
    now_ms = time.time_ns() // 1_000_000
    for number in range(3):
        sent = store.send("old", {"id": number, "note": "old"}, timestamp=now_ms - 3 * DAY_MS + number)
        assert sent.status_code == 200
    for number in range(3, 6):
        assert store.send("old", {"id": number}).status_code == 200
    maintained(store, "old")
    assert store.table("old").column("data").to_pylist() == [{"id": number, "note": None} for number in range(3, 6)]


def test_a_copy_has_the_topic_and_its_registry(store: Store, tmp_path: Path) -> None:
    """Its gateway judges by the same schemas, under the same ids, and gives none of them again."""
    schema_id = store.registry.register("copied-value", ORDER)
    store.create("copied")
    assert store.send("copied", {"id": 1}).status_code == 200
    target = tmp_path / "target"
    store.run("backup", str(target), "--store", str(store.path))
    with running_gateway(target, tmp_path / "log") as gateway:
        copy = Store(gateway)
        found = copy.registry.call("GET", f"/schemas/ids/{schema_id}")["schema"]
        assert json.loads(found) == json.loads(ORDER)
        assert copy.send("copied", {"id": "x"}).status_code == 400
        assert copy.send("copied", {"id": 2}).status_code == 200
        newer = copy.registry.register("copied-value", record("Order", id="long", size=(["null", "long"], None)))
        assert newer > 1_000_000
        assert copy.send("copied", {"id": 3, "size": 7}).status_code == 200
        assert copy.table("copied").column("data").to_pylist() == [
            {"id": 1, "size": None},
            {"id": 2, "size": None},
            {"id": 3, "size": 7},
        ]
        maintained(copy, "copied")
        copy.http.close()
        copy.registry.close()
    restored = tmp_path / "restored"
    version = str(store.delta("copied").version())
    store.run("restore", str(target), "--store", str(restored), "--topic", "copied", "--version", version)
    with running_gateway(restored, tmp_path / "log2") as gateway:
        back = Store(gateway)
        assert back.table("copied").column("data").to_pylist() == [{"id": 1}]
        assert back.send("copied", {"id": 4}).status_code == 200
        assert [data["id"] for data in back.table("copied").column("data").to_pylist()] == [1, 4]
        back.http.close()
        back.registry.close()
