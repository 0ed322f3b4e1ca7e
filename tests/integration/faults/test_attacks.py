"""What an attacker may try at a gateway with ``auth=on``, by script: each attempt fails, and no credential shows up anywhere."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from gateway.cluster.heartbeat import Heartbeat, encode_heartbeat
from gateway.cluster.keys import cluster_keys
from log_format.cluster.identity import load_cluster
from log_format.stores import open_store
from tests.support.access import Client, Right, bootstrap, by, cluster_key
from tests.support.attacks.trap import Trap
from tests.support.gateway_process import StartGateway

BODY = {"records": [{"value": "v"}]}


@pytest.fixture
def trap() -> Iterator[Trap]:
    made = Trap()
    yield made
    made.close()


def test_no_attempt_works_and_no_credential_is_told(
    tmp_path: Path, start_gateway: StartGateway, client_of: Callable[..., Client], trap: Trap
) -> None:
    """Tokens elsewhere than in the one header, pages of other sites, forged heartbeats and hops. The log of the whole run, every
    answer and the metrics have no secret."""
    first, settings = bootstrap(tmp_path)
    gateway = start_gateway(
        str(tmp_path / "store"), *settings, *cluster_key(tmp_path), "--heartbeat-ms", "200", "--log-level", "debug"
    )
    operator = client_of(gateway.url, first)
    _, token = operator.token("User:writer", [Right("All", "topic", "t", "prefix")])
    answers: list[httpx.Response] = []

    def ask(
        method: str, path: str, status: int, headers: dict[str, str] | None = None, **more: object
    ) -> httpx.Response:
        answer = httpx.request(method, gateway.url + path, headers=headers, trust_env=False, **more)  # type: ignore[arg-type]
        assert answer.status_code == status, (method, path, headers, answer.text)
        answers.append(answer)
        return answer

    ask("POST", "/v1/topics", 201, by(token), json={"name": "t"})
    bad = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    elsewhere = [
        ("GET", f"/v1/topics/t?access_token={token}", {}),
        ("GET", f"/v1/topics/t?token={token}", {}),
        ("GET", f"/v1/topics/t?authorization=Bearer+{token}", {}),
        ("GET", "/v1/topics/t", {"cookie": f"token={token}"}),
        ("GET", "/v1/topics/t", {"x-api-key": token}),
        ("GET", "/v1/topics/t", {"proxy-authorization": f"Bearer {token}"}),
        ("GET", "/v1/topics/t", {"authorization": token}),
        ("GET", "/v1/topics/t", {"authorization": f"Basic {token}"}),
        ("GET", "/v1/topics/t", {"authorization": f"Bearer {token} {token}"}),
        ("GET", "/v1/topics/t", {"authorization": f"Bearer {bad}"}),
        ("GET", f"/v1/no/such?token={token}", {"authorization": f"Bearer {bad}"}),
    ]
    bodies = {
        ask(method, path, 401, headers).content.partition(b',"request_id"')[0] for method, path, headers in elsewhere
    }
    assert len(bodies) == 1
    # With a valid credential, too, a parameter that is none is refused, and what it had is not told.
    ask("GET", f"/v1/topics/t?access_token={token}", 400, by(token))
    ask("POST", f"/v1/topics/t/records?token={token}", 400, by(token), json=BODY)
    for headers in (
        {"origin": "https://evil"},
        {"sec-fetch-site": "cross-site"},
        {"host": "evil.example"},
        {"host": "evil.example", "origin": "https://evil.example"},
        {"tidelog-hop": token},
        {"tidelog-hop": "e30=." + "0" * 64},
    ):
        ask("POST", "/v1/topics/t/records", 400, by(token) | headers, json=BODY)
        ask("POST", "/v1/topics/t/records", 401, headers, json=BODY)
    _forge_heartbeats(tmp_path / "store", trap.url)
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        listed = ask("GET", "/v1/cluster", 200, by(token)).json()["gateways"]
        assert [one["url"] for one in listed] == [gateway.url]
        name = f"t{secrets.token_hex(4)}"
        ask("POST", "/v1/topics", 201, by(token), json={"name": name, "config": {"flush.ms": 0}})
        ask("POST", f"/v1/topics/{name}/records", 200, by(token), json=BODY)
    assert trap.caught == []
    found = ask("GET", "/v1/topics/t/partitions/0/records?offset=0", 200, by(token)).json()
    assert found["records"] == []
    told = gateway.log() + operator.http.get("/metrics").text + "".join(f"{one.headers}{one.text}" for one in answers)
    assert "/v1/topics/{topic}" in told
    for secret in (token, first, bad, *(one.split("_", 2)[2] for one in (token, first))):
        assert secret not in told


def _forge_heartbeats(directory: Path, url: str) -> None:
    """As a writer of the store can forge them: it knows all of the store, but not the gateways' own key."""
    store = open_store(str(directory))
    forged = Heartbeat(
        id="evil", instance="i", beat=1, url=url, started_at=0, version="1", owned_topics=0,
        issued_at=time.time_ns() // 1_000_000, journals=True, hops=True,
    )  # fmt: skip
    keys = cluster_keys(load_cluster(store, lambda: ""), None)
    store.put("system/gateways/evil.json", encode_heartbeat(forged, keys))
    members = json.loads(encode_heartbeat(forged, keys))
    del members["mac"]
    store.put("system/gateways/worse.json", json.dumps(members | {"id": "worse"}).encode())
