"""Probes, metrics, the cluster, and the pages for people."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from gateway.gateway import Gateway
from gateway.monitoring.maintenance_watch import MaintenanceWatch
from gateway.routes.operations import StoreCheck
from gateway.stores.write_watch import FailingWrites, WriteWatch
from log_format.cluster.maintenance_sign import MaintenanceSign, put_sign
from log_format.errors import StoreReason, StoreUnavailable
from log_format.stores.memory import MemoryStore
from tests.support.application import Client, engine_of, gateway_with


def test_readiness_follows_the_store(client: Client, application: Gateway) -> None:
    """Ready while the store answers, 503 with Retry-After while it does not; the cause stays inside."""
    assert client.get("/readyz").json() == {"status": "ready"}
    client.app.state.store_check = StoreCheck()
    engine_of(application).store_error = StoreUnavailable("k", "host secret refused", may_have_happened=False)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["error_code"]) == (503, "UNAVAILABLE")
    assert "retry-after" in answer.headers
    assert "secret" not in answer.text
    assert client.get("/healthz").status_code == 200


def test_a_gateway_that_can_not_write_stays_ready_and_says_so(application: Gateway) -> None:
    """It serves readers; a balancer keeps it, and people and programs are told since when and why, in a class of words."""
    watch = WriteWatch(MemoryStore("s"), application.clock)
    client = Client(replace(application, writes=watch))
    assert client.get("/readyz").json() == {"status": "ready"}
    assert client.get("/v1/cluster").json()["failing_writes"] is None
    watch._failing = FailingWrites(since_ms=1_700_000_000_000, reason=StoreReason.READ_ONLY)
    answer = client.get("/readyz")
    told = {"since": 1_700_000_000_000, "reason": "read_only", "detail": "the store is read-only"}
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "failing_writes": told})
    assert client.get("/v1/cluster").json()["failing_writes"] == told


def test_the_cluster_has_what_is_known_of_maintenance_where_it_is_asked(application: Gateway) -> None:
    """By its sign of life; the answer without the parameter stays as it is."""
    store, clock = MemoryStore("s"), application.clock
    told: dict[str, object] = {"state": "never", "seen_at": None, "round_ended_at": None, "failed_topics": 0}
    for sign, known in (
        (None, {}),
        (MaintenanceSign(seen_at=1, failed_topics=2), {"state": "single", "seen_at": 1, "failed_topics": 2}),
        (MaintenanceSign(seen_at=1, every_ms=60_000), {"state": "overdue", "seen_at": 1}),
    ):
        if sign is not None:
            put_sign(store, sign)
        watch = MaintenanceWatch(store, clock, CollectorRegistry())
        client = Client(replace(application, maintenance=watch))
        assert client.get("/v1/cluster?include=maintenance").json()["maintenance"] == told | known
        assert "maintenance" not in client.get("/v1/cluster").json()
    assert client.get("/v1/cluster?include=x").status_code == 400


def test_probes_do_not_load_the_store(client: Client, application: Gateway) -> None:
    """A hundred probes are a look at the store for each second that they take, and not a hundred."""
    began = time.monotonic()
    for _ in range(100):
        client.get("/readyz")
    assert 1 <= engine_of(application).events.count("look") <= 2 + (time.monotonic() - began)


def test_cluster_names_this_gateway_and_its_limits(client: Client, application: Gateway) -> None:
    """A client learns the body limit before it sends too much."""
    members = client.get("/v1/cluster").json()
    (own,) = members["gateways"]
    assert abs(own.pop("started_at") - application.clock.now_ms()) < 60_000
    assert own == {
        "id": application.settings.gateway_id,
        "url": "http://127.0.0.1:8080",
        "owned_topics": 3,
        "zone": None,
        "kafka": None,
    }
    assert re.fullmatch("memory:[0-9a-f]{16}", members["store"])
    assert members["limits"]["request_bytes_max"] == 16777216


def test_stores_are_told_apart_without_their_address() -> None:
    """A client that knows one store's gateways takes no other store's for one of them, whatever ids they were given."""
    uris = ("memory://bucket-one", "memory://bucket-one", "memory://bucket-two")
    names = [Client(gateway_with(store=uri)).get("/v1/cluster").json()["store"] for uri in uris]
    assert names[0] == names[1] != names[2]
    assert not any("bucket" in name or "one" in name for name in names)


def test_operators_see_where_the_store_is(application: Gateway) -> None:
    """The operations listener has the probes, the metrics and the store's URI, and nothing that clients do there."""
    operations = Client(application, operations=True)
    members = operations.get("/v1/cluster").json()
    assert members["store"] == "memory://x"
    assert members.keys() == Client(application).get("/v1/cluster").json().keys()
    for path in ("/healthz", "/readyz"):
        assert operations.get(path).status_code == 200
    assert "tidelog_http_requests_total" in operations.get("/metrics", {"accept-encoding": "gzip"}).text
    assert operations.get("/metrics?x=1").json()["error_code"] == "INVALID_REQUEST"
    for path in ("/v1/fine", "/v1/topics", "/"):
        assert operations.get(path).json()["error_code"] == "NOT_FOUND"
    application.engine.refuse_work()
    assert operations.get("/readyz").json()["error_code"] == "DRAINING"
    assert operations.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("accept", "status", "kind"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 200, "text/html"),
        ("*/*", 404, "application/problem+json"),
        ("application/json", 404, "application/problem+json"),
        ("", 404, "application/problem+json"),
        ("application/problem+json, text/html;q=0.5", 404, "application/problem+json"),
    ],
)
def test_a_browser_finds_its_way(client: Client, accept: str, status: int, kind: str) -> None:
    """A browser at the gateway's address is told what it is; for programs there is no such route."""
    answer = client.get("/", headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (status, kind)
    for link in re.findall('href="(.*?)"', answer.text):
        assert client.get(link).status_code == 200, link
    assert (b"/docs" in answer.content) is (status == 200)


def test_the_docs_load_nothing_from_elsewhere(client: Client) -> None:
    """The page works without the internet: it names no other host and its policy forbids any."""
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert not re.search(r"(src|href)\s*=\s*[\"'](https?:)?//", answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
