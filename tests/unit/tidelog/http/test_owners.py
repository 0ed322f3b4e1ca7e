"""``tidelog.http.owners``: records go straight to the preferred gateway where it can be reached, else to any known one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from log_format.cluster.preferred import preferred_gateway
from tests.support.waiting import until
from tidelog.http.endpoints import Endpoints
from tidelog.http.owners import Owners, RoutingKey

UNREACHABLE = "http://127.0.0.1:9"
TOPICS = [f"topic-{number}" for number in range(40)]


class Gateway:
    """Answers ``GET /v1/cluster`` with what ``cluster`` is."""

    def __init__(self) -> None:
        gateway = self
        self.cluster: dict[str, Any] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = msgspec.json.encode(gateway.cluster)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def gateways() -> Iterator[list[Gateway]]:
    started = [Gateway(), Gateway()]
    yield started
    for gateway in started:
        gateway.end()


@pytest.fixture
def owners_of() -> Iterator[Callable[..., Owners]]:
    made: list[tuple[Owners, Endpoints]] = []

    def make(url: str, **bounds: Any) -> Owners:
        endpoints = Endpoints(url)
        made.append((Owners(endpoints, **bounds), endpoints))
        return made[-1][0]

    yield make
    for owners, endpoints in made:
        owners.close(abort=True)
        endpoints.close(abort=True)


def learned(owners: Owners) -> None:
    """Wait until the first look at the cluster is over."""
    owners.endpoint_for(RoutingKey("any"))
    until(lambda: all(thread.name != "tidelog-owners" for thread in threading.enumerate()))


def cluster(store: str, **urls: str) -> dict[str, Any]:
    return {"store": store, "gateways": [{"id": name, "url": url} for name, url in urls.items()]}


def test_records_go_to_the_preferred_gateway(gateways: list[Gateway], owners_of: Callable[..., Owners]) -> None:
    """The same gateway that the gateways prefer; while it rests, any."""
    urls = {"a": gateways[0].url, "b": gateways[1].url}
    for gateway in gateways:
        gateway.cluster = cluster("s", **urls)
    owners = owners_of(gateways[0].url)
    learned(owners)
    for topic in TOPICS:
        endpoint = owners.endpoint_for(RoutingKey(topic))
        assert endpoint is not None
        assert endpoint.url == urls[preferred_gateway(topic, urls) or ""]
    endpoint = owners.endpoint_for(RoutingKey(TOPICS[0]))
    assert endpoint is not None
    endpoint.pause(60_000)
    assert owners.endpoint_for(RoutingKey(TOPICS[0])) is None
    another = owners.another()
    assert another is not None
    assert another.url != endpoint.url


@pytest.mark.parametrize("behind", ["nobody", "another store", "another gateway"])
def test_behind_a_balancer_the_addresses_given_are_kept_to(
    gateways: list[Gateway], owners_of: Callable[..., Owners], behind: str
) -> None:
    """An advertised address that leads nowhere, or to another server, is never sent a record."""
    advertised = UNREACHABLE if behind == "nobody" else gateways[1].url
    gateways[0].cluster = cluster("s", a=UNREACHABLE, b=advertised)
    gateways[1].cluster = cluster("t", b=advertised) if behind == "another store" else cluster("s", c=advertised)
    owners = owners_of(gateways[0].url)
    learned(owners)
    assert [owners.endpoint_for(RoutingKey(topic)) for topic in TOPICS] == [None] * len(TOPICS)
    assert owners.another() is None


def test_what_was_learned_outlives_the_addresses_given(
    gateways: list[Gateway], owners_of: Callable[..., Owners]
) -> None:
    """Every bootstrap address is gone: a gateway that was learned tells of the next one, also when it is the only one left."""
    first, second = gateways
    for gateway in gateways:
        gateway.cluster = cluster("s", a=first.url, b=second.url)
    third = Gateway()
    owners = owners_of(first.url, age_ms_max=0, doubt_ms=0)
    try:
        learned(owners)
        first.server.shutdown()
        first.server.server_close()
        for gateway in (second, third):
            gateway.cluster = cluster("s", b=second.url, c=third.url)
        learned(owners)
        found = {endpoint.url for topic in TOPICS if (endpoint := owners.endpoint_for(RoutingKey(topic))) is not None}
        assert third.url in found
        third.cluster = second.cluster = cluster("s", b=second.url)
        learned(owners)
        learned(owners)
        another = owners.another()
        assert another is not None
        assert another.url == second.url
    finally:
        third.end()


def test_a_client_that_knows_its_zone_stays_in_it(gateways: list[Gateway], owners_of: Callable[..., Owners]) -> None:
    """For what any gateway serves; records of a topic with its own commits, and groups, have their owner as ever."""
    urls = {"a": gateways[0].url, "b": gateways[1].url}
    for gateway in gateways:
        gateway.cluster = cluster("s", **urls)
        for one, zone in zip(gateway.cluster["gateways"], ("z1", "z2"), strict=True):
            one["zone"] = zone
    owners = owners_of(gateways[0].url, zone="z2")
    learned(owners)
    for topic in TOPICS:
        near, owner = owners.endpoint_for(RoutingKey(topic, served_by_any=True)), owners.endpoint_for(RoutingKey(topic))
        assert near is not None
        assert owner is not None
        assert near.url == urls["b"]
        assert owner.url == urls[preferred_gateway(topic, urls) or ""]
    another = owners.another()
    assert another is not None
    assert another.url == urls["b"]
    another.pause(60_000)
    owner = owners.endpoint_for(
        RoutingKey(next(topic for topic in TOPICS if preferred_gateway(topic, urls) == "a"), served_by_any=True)
    )
    assert owner is not None
    assert owner.url == urls["a"], "the only gateway of the zone rests: another zone's is better than none"
