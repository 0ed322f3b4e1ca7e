"""The gateway as users start it: its command line, and the bound on its memory."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.process.worker_count import share_memory
from gateway.settings.settings import Settings
from tests.support.forked import GATEWAY, ended
from tests.support.gateway_process import GatewayProcess, running_gateway

MEBIBYTE = 1024 * 1024
BODY_BYTES = 15_000_000
LOAD_SECONDS = 5
"""The most that it holds, also where the bound on bodies is too large, is there within four."""
LOAD_SECONDS_MAX = 90


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """One with the default settings on an empty directory."""
    with running_gateway(tmp_path / "store", tmp_path / "log") as started:
        yield started


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ([], {}, "TIDELOG_STORE"),
        (["--store", "ftp://x"], {}, "ftp://x"),
        (["--store", "memory://x", "--port", "many"], {}, "TIDELOG_PORT"),
        (["--store", "memory://x"], {"TIDELOG_CODEC_THREADS": "0"}, "TIDELOG_CODEC_THREADS"),
    ],
)
def test_wrong_settings_end_with_a_reason(arguments: list[str], environment: dict[str, str], said: str) -> None:
    """A gateway that can't know what is wanted says which setting is wrong, in one line, and ends with status 2."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    status, errors = ended([*GATEWAY, *arguments], plain | environment)
    assert status == 2
    assert said in errors
    assert errors.count("\n") == 1


def test_a_share_of_the_memory_takes_the_largest_request(tmp_path: Path) -> None:
    """One of many workers, or a gateway in a small container, takes a body of the largest size and of the smallest records."""
    settings = Settings(store="x")
    record = b'{"value":""},'
    body = b'{"records":[' + (record * (settings.request_bytes_max // len(record) - 2))[:-1] + b"]}"
    share = f"--in-flight-bytes-max={share_memory(settings, 64)['in_flight_bytes_max']}"
    with running_gateway(tmp_path / "store", tmp_path / "log", share) as gateway:
        url = f"{gateway.url}/v1/topics"
        assert httpx.post(url, json={"name": "large", "partition_count": 2}).status_code == 201
        headers = {"content-type": "application/json"}
        assert httpx.post(f"{url}/large/records", content=body, headers=headers, timeout=120).status_code == 200


def test_memory_stays_below_its_bound_under_any_load(gateway: GatewayProcess) -> None:
    """Largest bodies of tiny, of large and of raw records, and largest fetches in all forms, all at once and more than fit:
    with the default settings the process never holds 600 MiB, and it still answers.
    """
    tiny = b'{"records":[' + b",".join([b'{"value":""}'] * (BODY_BYTES // 13)) + b"]}"
    large = json.dumps({"records": [{"value": "x" * 100_000}] * (BODY_BYTES // 105_000)}).encode()
    bodies = {"tiny": (tiny, "application/json"), "large": (large, "application/json")}
    bodies["raw"] = (os.urandom(1_000_000), "application/octet-stream")
    url = f"{gateway.url}/v1/topics/load"
    assert httpx.post(f"{gateway.url}/v1/topics", json={"name": "load", "partition_count": 2}).status_code == 201
    began = time.monotonic()
    statuses: set[tuple[str, int]] = set()
    wanted = {("tiny", 200), ("large", 200), ("raw", 200), ("fetch", 200)}

    def is_over() -> bool:
        """On a slow machine memory for a large body may come late."""
        spent_s = time.monotonic() - began
        return spent_s > LOAD_SECONDS_MAX or (spent_s > LOAD_SECONDS and wanted <= statuses)

    def produce(kind: str) -> None:
        body, content_type = bodies[kind]
        with httpx.Client(timeout=120) as client:
            while not is_over():
                answer = client.post(f"{url}/records", content=body, headers={"content-type": content_type})
                statuses.add((kind, answer.status_code))

    def fetch(accept: str, encoding: str) -> None:
        query = "offset=earliest&max_records=100000&max_bytes=67108864"
        headers = {"accept": accept, "accept-encoding": encoding}
        with httpx.Client(timeout=120) as client:
            for turn in range(1_000_000):
                if is_over():
                    return
                with client.stream("GET", f"{url}/partitions/{turn % 2}/records?{query}", headers=headers) as answer:
                    statuses.add(("fetch", answer.status_code))
                    for _ in answer.iter_raw():
                        pass

    threads = [threading.Thread(target=produce, args=(kind,)) for kind in bodies for _ in range(5)]
    for accept in ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"):
        threads += [
            threading.Thread(target=fetch, args=(accept, encoding)) for encoding in ("identity", "gzip", "zstd")
        ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {status for _, status in statuses} <= {200, 503}
    assert wanted <= statuses
    assert gateway.peak_bytes() < 600 * MEBIBYTE
    assert httpx.get(f"{gateway.url}/readyz").status_code == 200
