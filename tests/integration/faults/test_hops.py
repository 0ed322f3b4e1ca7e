"""What gateways with ``auth=on`` pass on to each other: for its caller, once, and as it was sent."""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.access.caller import Caller
from gateway.cluster.keys import ClusterKeys, cluster_keys, read_key_file
from gateway.cluster.peers import Peer, Peers
from gateway.forwarding.hop import Hops, SealedRequest
from log_format.clock import SystemClock
from log_format.cluster.identity import load_cluster
from log_format.cluster.preferred import preferred_gateway
from log_format.stores import open_store
from tests.support.access import Client, Right, bootstrap, by, cluster_key
from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.waiting import eventually

Json = dict[str, Any]
IDS = ("one", "two")
ROOT = Caller("User:bootstrap", (), "token", "bootstrap")
JSON = [(b"content-type", b"application/json")]


@dataclass
class Pair:
    """Two gateways of a store, by id, and an operator's client, which asks the first."""

    gateways: dict[str, GatewayProcess]
    operator: Client
    token: str
    store: Path
    key_file: str | None

    def peer(self, name: str) -> Peer:
        """As its heartbeat has it."""
        found = json.loads((self.store / f"system/gateways/{name}.json").read_text())
        return Peer(name, found["url"], found["instance"])

    def hops(self) -> Hops:
        """Of a gateway that has the cluster's key, or at least what every reader of the store has."""
        peers = Peers(SystemClock())
        cluster = load_cluster(open_store(str(self.store)), lambda: "")
        peers.keys = cluster_keys(cluster, read_key_file(self.key_file) if self.key_file else None)
        return Hops(peers, SystemClock(), instance=secrets.token_hex(8))

    def passed_on(self, name: str, outcome: str) -> float:
        self.gateways[name].http.headers.update(by(self.token))
        wanted = f'tidelog_forwarded_requests_total{{outcome="{outcome}"}}'
        lines = self.gateways[name].http.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(wanted))


@pytest.fixture
def pair_of(tmp_path: Path, start_gateway: StartGateway, client_of: Callable[..., Client]) -> Callable[[bool], Pair]:
    """Start both; they know each other."""

    def start(with_key: bool) -> Pair:
        token, settings = bootstrap(tmp_path)
        key = cluster_key(tmp_path) if with_key else ()
        store = tmp_path / "store"
        common = (*settings, *key, "--heartbeat-ms", "300")
        gateways = {name: start_gateway(str(store), *common, "--gateway-id", name) for name in IDS}
        operator = client_of(gateways["one"].url, token)
        for gateway in gateways.values():
            gateway.http.headers.update(by(token))
        assert eventually(
            lambda: all(len(gateway.http.get("/v1/cluster").json()["gateways"]) == 2 for gateway in gateways.values())
        )
        return Pair(gateways, operator, token, store, key[1] if key else None)

    return start


@pytest.fixture
def pair(pair_of: Callable[[bool], Pair]) -> Pair:
    """With a key of their own."""
    return pair_of(True)


def owned_by(owner: str) -> str:
    """A topic of which this gateway is the preferred one."""
    return next(name for name in (f"t{number}" for number in range(100)) if preferred_gateway(name, IDS) == owner)


def test_what_is_passed_on_is_its_callers(pair: Pair, client_of: Callable[..., Client]) -> None:
    """The receiver judges the caller's rights, and its ids: whose request it is does not depend on where it arrives."""
    topic = owned_by("two")
    pair.gateways["one"].topic(topic)
    _, token = pair.operator.token("User:writer", [Right("Write", "topic", topic)])
    _, other = pair.operator.token("User:other", [Right("Write", "topic", "another")])
    writer = client_of(pair.gateways["one"].url, token).http
    before = pair.passed_on("one", "answered")
    body = {"records": [{"value": "v"}]}
    assert writer.post(f"/v1/topics/{topic}/records", json=body).status_code == 200
    assert pair.passed_on("one", "answered") == before + 1
    refused = writer.post(f"/v1/topics/{topic}/records", json=body, headers=by(other))
    assert (refused.status_code, refused.json()["error_code"]) == (403, "UNAUTHORIZED")
    producer = writer.post("/v1/producers", json={}).json()["producer_id"]
    stamp = {"Tidelog-Producer-Id": producer, "Tidelog-Producer-Epoch": "0", "Tidelog-Producer-Sequence": "0"}
    assert writer.post(f"/v1/topics/{topic}/records", json=body, headers=stamp).status_code == 200
    pair.operator.allow("User:other", Right("Write", "topic", topic))
    found = writer.post(f"/v1/topics/{topic}/records", json=body, headers=stamp | by(other))
    assert (found.status_code, found.json()["error_code"]) == (404, "UNKNOWN_PRODUCER")
    assert pair.passed_on("one", "refused") == 0


def test_what_is_refused_behind_a_hop_tells_where_it_came_from(pair: Pair, client_of: Callable[..., Client]) -> None:
    """A right that only the group's gateway can judge, since the body names the topic, is missing at the client's address."""
    group = next(
        name for name in (f"g{number}" for number in range(100)) if preferred_gateway(f"groups/{name}", IDS) == "two"
    )
    _, token = pair.operator.token("User:member", [Right("Read", "group", group)])
    before = pair.passed_on("one", "answered")
    refused = client_of(pair.gateways["one"].url, token).http.post(
        f"/v1/groups/{group}/members", json={"topics": ["unread"]}, headers={"x-request-id": "denied"}
    )
    assert refused.status_code == 403
    assert pair.passed_on("one", "answered") == before + 1

    def told() -> list[Json]:
        records = pair.gateways["two"].fetch("__audit", max_records=1_000).json().get("records", [])
        return [event for one in records if (event := json.loads(one["value"]))["request_id"] == "denied"]

    assert eventually(lambda: bool(told()), 20)
    assert [(event["kind"], event["source"]) for event in told()] == [("denial", "127.0.0.1")]


@pytest.mark.parametrize("how", ["revoked", "rotated"])
def test_a_wait_at_another_gateway_does_not_outlive_its_secret(
    pair: Pair, client_of: Callable[..., Client], how: str
) -> None:
    """It ends with the one 401, as where the client asked. That says nothing of the hop: the other gateway is asked again."""
    name = next(
        name for name in (f"q{number}" for number in range(100)) if preferred_gateway(f"queues/{name}", IDS) == "two"
    )
    one = pair.gateways["one"]
    one.topic("t")
    assert one.http.put(f"/v1/queues/{name}", json={"topics": ["t"]}).status_code == 201
    token_id, token = pair.operator.token("User:worker", [Right("Read", "group", name), Right("Read", "topic", "t")])
    worker = client_of(one.url, token).http
    before = pair.passed_on("one", "answered")
    answers: list[httpx.Response] = []
    path = f"/v1/queues/{name}:receive"
    waiting = threading.Thread(target=lambda: answers.append(worker.post(path, json={"max_wait_ms": 20_000})))
    waiting.start()
    two = client_of(pair.gateways["two"].url, pair.token).http

    def waits() -> bool:
        lines = two.get("/metrics").text.splitlines()
        return any(line.startswith("tidelog_waiting_polls ") and float(line.split()[-1]) >= 1 for line in lines)

    try:
        assert eventually(waits)
        if how == "revoked":
            ended = two.delete(f"/v1/access/tokens/{token_id}")
        else:
            ended = two.post(f"/v1/access/tokens/{token_id}:rotate", json={"overlap_ms": 0})
        assert ended.status_code in (200, 204)
        assert one.produce("t", "a secret").status_code == 200
    finally:
        waiting.join(30)
    refused = worker.get("/v1/whoami", headers=by("tl_abcdefgh_" + "x" * 43))
    (answer,) = answers
    assert answer.status_code == refused.status_code == 401
    shown = ("content-type", "www-authenticate", "cache-control")
    assert [answer.headers[one] for one in shown] == [refused.headers[one] for one in shown]
    assert not [one for one in answer.headers if one.startswith("x-tidelog")]
    assert answer.json() | {"request_id": ""} == refused.json() | {"request_id": ""}
    assert pair.passed_on("one", "refused") == 0
    assert pair.passed_on("one", "answered") > before


def sent(url: str, head: bytes, body: bytes) -> tuple[int, Json]:
    """The answer to a request, byte for byte as a gateway sends it."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head + body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, json.loads(answer.read())


def test_forged_replayed_redirected_and_altered_hops(pair: Pair) -> None:
    """One that holds is answered once. Every other request is a client's: refused without a credential (401) and with one (400),
    and nothing of it happens."""
    topic = owned_by("one")
    pair.gateways["one"].topic(topic)
    hops, peer = pair.hops(), pair.peer("one")
    body = b'{"records":[{"value":"once"}]}'
    request = SealedRequest(method="POST", target=f"/v1/topics/{topic}/records".encode(), request_id="r", headers=JSON)

    def head(to: Peer = peer, by: Hops = hops, caller: Caller | None = ROOT) -> bytes:
        made = by.head(to, request, body, passed=1, caller=caller)
        assert made is not None
        return made

    good = head()
    assert sent(peer.url, good, body)[0] == 200
    expired = Hops(hops._peers, LateClock(), instance="late")
    forger = Hops(Peers(SystemClock()), SystemClock(), instance="forger")
    forger._peers.keys = ClusterKeys(hops._peers.keys.cluster_id if hops._peers.keys else "", (b"x" * 32,))
    bad = {
        "replayed": (good, body),
        "redirected": (head(replace(peer, instance=pair.peer("two").instance)), body),
        "another body": (head(), body.replace(b"once", b"more")),
        "another target": (head().replace(topic.encode(), b"other", 1), body),
        "another method": (head().replace(b"POST", b"PUT", 1), body),
        "another header": (head().replace(b"tidelog-hop", b"tidelog-producer-id: x\r\ntidelog-hop"), body),
        "expired": (head(by=expired), body),
        "forged": (head(by=forger), body),
        "without a caller": (head(caller=None), body),
        "a client's own": (b"GET /v1/topics HTTP/1.1\r\nhost: x\r\ntidelog-hop: x\r\n\r\n", b""),
    }
    credential = b"authorization: Bearer " + pair.token.encode() + b"\r\ntidelog-hop"
    for what, (one, content) in bad.items():
        # Such a request is no gateway's, and without a credential no principal's. Only the body is looked at later.
        status, problem = sent(peer.url, one, content)
        assert status == (400 if what == "another body" else 401), (what, problem)
    bad["another body"] = (head(), body.replace(b"once", b"more"))
    for what, (one, content) in bad.items():
        status, problem = sent(peer.url, one.replace(b"tidelog-hop", credential), content)
        assert status == 400, (what, problem)
        assert (problem["error_code"], problem["errors"][0]["where"]) == ("INVALID_REQUEST", "Tidelog-Hop"), what
        assert problem["may_have_happened"] is False
        assert pair.token not in str(problem)
    assert sent(pair.peer("two").url, head(), body)[0] == 401
    assert [value for _, value in pair.gateways["one"].read(topic)] == ["once"]


class LateClock(SystemClock):
    """A minute behind."""

    def now_ms(self) -> int:
        return super().now_ms() - 60_000


def test_without_a_key_of_their_own_gateways_pass_nothing_on(pair_of: Callable[[bool], Pair]) -> None:
    """A reader of the store knows the default key, and would be any caller with it: a hop by it is refused, and each gateway
    serves what arrives, and says so at its start."""
    pair = pair_of(False)
    topic = owned_by("two")
    gateway = pair.gateways["one"]
    gateway.topic(topic)
    assert gateway.produce(topic, "a").status_code == 200
    assert pair.passed_on("one", "answered") == 0
    assert eventually(lambda: "cluster_key_file" in gateway.log(), 5)
    request = SealedRequest(method="GET", target=b"/v1/whoami", request_id="r", headers=[])
    head = pair.hops().head(pair.peer("one"), request, b"", passed=1, caller=ROOT)
    assert head is not None
    assert sent(gateway.url, head, b"")[0] == 401
    for path in (
        "/gateways/journal-offers",
        "/gateways/journal-news",
        "/gateways/queue-takes",
        "/gateways/queue-settlements",
    ):
        assert gateway.http.post(path, content=b"[0,1]").status_code == 404
