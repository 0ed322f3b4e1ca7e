"""What is sent to the registry to take its memory or time is refused, or done within bounds; others are answered meanwhile."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.registry import Registry, record

MEBIBYTE = 1024 * 1024


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with room for a few schemas."""
    folder = tmp_path_factory.mktemp("attacked")
    with running_gateway(folder / "store", folder / "log", "--schemas-bytes-max", str(20 * MEBIBYTE)) as made:
        yield made


@pytest.fixture(scope="module")
def registry(gateway: GatewayProcess) -> Iterator[Registry]:
    """Its registry."""
    made = Registry(f"{gateway.url}/registry")
    yield made
    made.close()


def _wide(size_bytes: int) -> str:
    text = record("Wide", **{f"field_{number}": ("int", 0) for number in range(size_bytes // 60)})
    assert size_bytes * 0.8 < len(text) <= size_bytes
    return text


def test_large_schemas(registry: Registry) -> None:
    """They are registered and compared within seconds, and one of more than a mebibyte is 42209."""
    began = time.monotonic()
    large = _wide(MEBIBYTE * 3 // 4)
    schema_id = registry.register("large", large)
    assert registry.register("large", large) == schema_id
    assert registry.call("POST", "/compatibility/subjects/large/versions", {"schema": record("Wide", a=("int", 0))})
    assert len(registry.call("GET", f"/schemas/ids/{schema_id}")["schema"]) > MEBIBYTE // 2
    assert time.monotonic() - began < 60
    registry.refused(42209, "POST", "/subjects/large/versions", {"schema": " " * (MEBIBYTE + 1)})
    registry.refused(
        42209, "POST", "/subjects/large/versions", {"schema": '"int"', "metadata": {"a": "x" * 9 * MEBIBYTE}}
    )
    registry.refused(413, "POST", "/subjects/large/versions", {"schema": " " * 20 * MEBIBYTE})


@pytest.mark.parametrize("depth", [50, 1_000, 100_000])
@pytest.mark.parametrize("schema_type", ["AVRO", "JSON"])
def test_deep_schemas(registry: Registry, schema_type: str, depth: int) -> None:
    """They are understood, or refused as a schema; never an error of the gateway."""
    if schema_type == "AVRO":
        text = '{"type":"array","items":' * depth + '"int"' + "}" * depth
    else:
        text = '{"items":' * depth + "{}" + "}" * depth
    answer = registry.asked(
        "POST", f"/subjects/deep-{schema_type}/versions", {"schema": text, "schemaType": schema_type}
    )
    assert answer.status_code in (200, 409, 422), answer.text
    assert depth < 1_000 or answer.json()["error_code"] in (42201, 42209)


@pytest.mark.parametrize("path", ["subjects/odd/versions", "subjects/odd", "compatibility/subjects/odd/versions"])
def test_bodies_that_no_parser_reads(gateway: GatewayProcess, path: str) -> None:
    """One that is not UTF-8, and one whose unknown member nests too deeply: 400, not a failure of the gateway."""
    for body in (b'{"schema":"\xff"}', b'{"x":' + b"[" * 3000 + b"]" * 3000 + b"}"):
        answer = httpx.post(
            f"{gateway.url}/registry/{path}", content=body, headers={"content-type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error_code"]) == (400, 400), answer.text


def test_a_schema_that_takes_long_holds_up_no_other_request(gateway: GatewayProcess, registry: Registry) -> None:
    """Parsing happens in threads of its own: probes, reads by id and small registrations go on."""
    schema_id = registry.register("small", record("Small", a="int"))
    stop = threading.Event()

    def attack(number: int) -> None:
        with_url = Registry(f"{gateway.url}/registry")
        while not stop.is_set():
            with_url.asked("POST", f"/compatibility/subjects/none-{number}/versions", {"schema": _wide(MEBIBYTE)})
        with_url.close()

    with ThreadPoolExecutor(4) as pool:
        attackers = [pool.submit(attack, number) for number in range(4)]
        try:
            slowest = 0.0
            for _ in range(40):
                began = time.monotonic()
                registry.call("GET", f"/schemas/ids/{schema_id}")
                slowest = max(slowest, time.monotonic() - began)
                time.sleep(0.05)
        finally:
            stop.set()
        for one in attackers:
            one.result()
    assert slowest < 2.0


def test_memory_is_bounded(gateway: GatewayProcess, registry: Registry) -> None:
    """Registrations beyond the budget are refused, and what is there can be read, registered again and deleted."""
    gateway.reset_peak()
    before = gateway.peak_bytes()
    made = []
    for number in range(40):
        text = json.dumps({"type": "fixed", "name": f"F{number}", "size": 1, "doc": "x" * 900_000})
        answer = registry.asked("POST", f"/subjects/full-{number}/versions", {"schema": text})
        if answer.status_code == 503:
            break
        made.append((f"full-{number}", text, answer.json()["id"]))
    assert 5 < len(made) < 40
    assert answer.json()["error_code"] == 503
    assert "schemas_bytes_max" in answer.json()["message"]
    subject, text, schema_id = made[0]
    assert registry.register(subject, text) == schema_id
    registry.call("DELETE", f"/subjects/{subject}")
    registry.call("DELETE", f"/subjects/{subject}", permanent="true")
    assert registry.register("room-again", record("Room", a="int"))
    assert gateway.peak_bytes() - before < 150 * MEBIBYTE


def test_names_of_all_kinds(registry: Registry) -> None:
    """No path leads out of the registry, and no name out of its subject."""
    odd = ("../../v1/topics", "..%2F..", "%00", "a/versions/1", "\u202e", "'; drop", "{subject}", ":.c:", ":.c:x:y")
    for name in (*odd, "x" * 1_000):
        path = f"/subjects/{quote(name, safe='')}/versions"
        answer = registry.asked("POST", path, {"schema": '"int"'})
        assert answer.status_code == 200 or answer.json()["error_code"] == 42208, (name, answer.text)
        if answer.status_code == 200:
            shown = registry.call("GET", f"{path}/latest")["subject"]
            assert shown == name, (shown, name)


def test_queries_of_all_kinds(registry: Registry) -> None:
    """What is no number is 400; what is unknown is ignored."""
    for query in ("offset=x", "limit=99999999999", "offset=%ff", "&".join(f"a{number}=1" for number in range(200))):
        assert registry.http.get(f"/subjects?{query}").status_code == 400, query[:20]
    for query in ("offset=-5", "limit=0", "deleted=", "deleted=yes", "fetchMaxId=&x=1", "subjectPrefix=:*:"):
        assert registry.http.get(f"/subjects?{query}").status_code == 200, query


def test_many_versions(tmp_path: Path) -> None:
    """A subject with two thousand versions is listed, compared with all of them, and deleted."""
    with running_gateway(tmp_path / "store", tmp_path / "log") as gateway:
        registry = Registry(f"{gateway.url}/registry")
        registry.call("PUT", "/config/many", {"compatibility": "NONE"})

        def register(number: int) -> None:
            registry.register("many", record("Many", **{f"f{number}": ("int", 0)}))
            if number < 100:
                registry.register("compared", record("Many", **{f"f{number}": ("int", 0)}))

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(register, range(2_000)))
        pooled = [registry.call("GET", f"/subjects/many/versions/{number}")["id"] for number in (1, 2_000)]
        assert len(set(pooled)) == 2
        assert registry.call("GET", "/subjects/many/versions") == list(range(1, 2_001))
        assert registry.call("GET", "/subjects/compared/versions") == list(range(1, 101))
        registry.call("PUT", "/config/many", {"compatibility": "FULL_TRANSITIVE"})
        began = time.monotonic()
        body = {"schema": record("Many", new=("int", 0))}
        assert registry.call("POST", "/compatibility/subjects/many/versions", body) == {"is_compatible": True}
        assert time.monotonic() - began < 30
        assert len(registry.call("DELETE", "/subjects/many")) == 2_000
        assert len(registry.call("DELETE", "/subjects/many", permanent="true")) == 2_000
        registry.close()
