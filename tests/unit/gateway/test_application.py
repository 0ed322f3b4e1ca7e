"""The application without a socket: errors, operations, the OpenAPI document, the order of the middlewares."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gateway.app import ROUTERS, create_app
from gateway.gateway import Gateway
from gateway.http.direct_route import DirectRoute
from gateway.http.disconnect import unless_disconnected
from gateway.openapi.schemas import COMPONENT_SCHEMAS
from gateway.routes.operations import StoreCheck
from gateway.settings import Settings
from log_format.errors import BackOff, ErrorCode, StoreUnavailable
from tests.support.lone_gateway import lone_gateway


class StubEngine:
    """Does nothing, and says of the store what it was told."""

    def __init__(self) -> None:
        self.draining = False
        self.topics = None
        self.owned_topic_count = 3
        self.events: list[str] = []
        self.store_error: Exception | None = None

    async def start(self) -> None:
        self.events.append("start")

    def refuse_work(self) -> None:
        self.draining = True

    async def drain(self) -> None:
        self.events.append("drain")
        self.refuse_work()

    async def measure(self) -> None:
        pass

    async def store_answers(self) -> None:
        self.events.append("look")
        if self.store_error is not None:
            raise self.store_error


router = APIRouter(route_class=DirectRoute)


@router.get("/v1/fail")
async def fail(_request: Request) -> Response:
    raise ZeroDivisionError("a secret")


@router.get("/v1/gone")
async def gone(_request: Request) -> Response:
    raise ClientDisconnect


@router.get("/v1/fine")
async def fine(_request: Request) -> Response:
    return Response(b"fine")


@router.get("/v1/corrupt")
async def corrupt(_request: Request) -> Response:
    raise BackOff("broken", code=ErrorCode.CORRUPT_SEGMENT, segment="segments/x.parquet")


def gateway_with(**values: Any) -> Gateway:
    settings = {"store": "memory://x", "gateway_id": "a", "log_level": "error", **values}
    return lone_gateway(Settings(**settings), StubEngine())


@pytest.fixture
def gateway() -> Gateway:
    return gateway_with()


class Client:
    """Asks the application directly, without a socket; ``operations``: what the operations listener serves."""

    def __init__(self, gateway: Gateway, *, operations: bool = False) -> None:
        self.app = create_app(gateway, (*ROUTERS, router))
        self._asked = self.app.operations if operations else self.app

    def request(self, method: str, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._asked)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(ask())

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        return self.request("GET", path, headers)


@pytest.fixture
def client(gateway: Gateway) -> Client:
    return Client(gateway)


def engine(gateway: Gateway) -> StubEngine:
    found: object = gateway.engine
    assert isinstance(found, StubEngine)
    return found


async def test_the_lifespan_starts_and_drains_the_engine(gateway: Gateway) -> None:
    """The server of the application needs to know nothing of the engine."""
    app = create_app(gateway)
    async with app.router.lifespan_context(app):
        assert engine(gateway).events == ["start"]
    assert engine(gateway).events == ["start", "drain"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("GET", "/nope", {}, 404, "NOT_FOUND"),
        ("GET", "/v1/cluster/", {}, 404, "NOT_FOUND"),
        ("DELETE", "/healthz", {}, 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/healthz?x=1", {}, 400, "INVALID_REQUEST"),
        ("GET", "/metrics?x=1", {}, 400, "INVALID_REQUEST"),
        ("GET", "/docs?x=1", {}, 400, "INVALID_REQUEST"),
        ("GET", "/openapi.json?x=1", {}, 400, "INVALID_REQUEST"),
        ("GET", "/v1/%ff", {}, 400, "INVALID_REQUEST"),
        ("GET", "/v1/fail", {}, 500, "INTERNAL"),
        ("GET", "/v1/corrupt", {}, 500, "CORRUPT_SEGMENT"),
        ("GET", "/v1/fine", {"tidelog-anything": "p"}, 400, "INVALID_REQUEST"),
    ],
)
def test_every_error_is_a_problem(
    client: Client, method: str, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    """Unknown routes, wrong methods, bad queries, failures: one form, with the request's id, true to its schema."""
    answer = client.request(method, path, headers={"x-request-id": "mine", **headers})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    members = answer.json()
    assert (members["error_code"], members["status"], members["request_id"]) == (code, status, "mine")
    assert answer.headers["x-request-id"] == "mine"
    assert "secret" not in answer.text
    jsonschema_rs.validate(COMPONENT_SCHEMAS["Problem"], members)


def test_a_refused_header_is_named(client: Client) -> None:
    """A client that counts on idempotence learns that it is not there, by the header's name."""
    answer = client.get("/v1/fine", headers={"Tidelog-Transactions": "x"})
    assert answer.json()["errors"] == [{"where": "Tidelog-Transactions", "what": "is not supported"}]


def test_405_names_the_methods(client: Client) -> None:
    """Allow goes with every 405."""
    assert client.request("POST", "/healthz").headers["allow"] == "GET, HEAD"


def test_a_client_that_went_away_is_no_error(client: Client, gateway: Gateway) -> None:
    """Nothing is answered, and it is counted as closed by the client, not as a failure."""
    with pytest.raises(AssertionError):  # The transport insists on an answer; there must be none.
        client.get("/v1/gone")
    text = gateway.metrics.exposition().decode()
    assert 'tidelog_http_requests_total{method="GET",route="/v1/gone",status="499"} 1.0' in text


def test_readiness_follows_the_store(client: Client, gateway: Gateway) -> None:
    """Ready while the store answers, 503 with Retry-After while it does not; the cause stays inside."""
    assert client.get("/readyz").json() == {"status": "ready"}
    client.app.state.store_check = StoreCheck()
    engine(gateway).store_error = StoreUnavailable("k", "host secret refused", may_have_happened=False)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["error_code"]) == (503, "UNAVAILABLE")
    assert "retry-after" in answer.headers
    assert "secret" not in answer.text
    assert client.get("/healthz").status_code == 200


def test_probes_do_not_load_the_store(client: Client, gateway: Gateway) -> None:
    """A hundred probes within a second are one look at the store."""
    for _ in range(100):
        client.get("/readyz")
    assert engine(gateway).events.count("look") <= 2


def test_draining_refuses_work_but_not_operations(client: Client, gateway: Gateway) -> None:
    """While the gateway shuts down it says so: readiness fails, work is DRAINING, the rest answers."""
    gateway.engine.refuse_work()
    for path in ("/readyz", "/v1/fine"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error_code"]) == (503, "DRAINING"), path
        assert int(answer.headers["retry-after"]) > 0
    for path in ("/healthz", "/metrics", "/v1/cluster", "/openapi.json", "/docs"):
        assert client.get(path).status_code == 200, path


def test_cluster_names_this_gateway_and_its_limits(client: Client, gateway: Gateway) -> None:
    """A client learns the body limit before it sends too much."""
    members = client.get("/v1/cluster").json()
    (own,) = members["gateways"]
    assert abs(own.pop("started_at") - gateway.clock.now_ms()) < 60_000
    assert own == {
        "id": gateway.settings.gateway_id,
        "url": "http://127.0.0.1:8080",
        "owned_topics": 3,
    }
    assert re.fullmatch("memory:[0-9a-f]{16}", members["store"])
    assert members["limits"]["request_bytes_max"] == 16777216


def test_stores_are_told_apart_without_their_address() -> None:
    """A client that knows one store's gateways takes no other store's for one of them, whatever ids they were given."""
    uris = ("memory://bucket-one", "memory://bucket-one", "memory://bucket-two")
    names = [Client(gateway_with(store=uri)).get("/v1/cluster").json()["store"] for uri in uris]
    assert names[0] == names[1] != names[2]
    assert not any("bucket" in name or "one" in name for name in names)


def test_operators_see_where_the_store_is(gateway: Gateway) -> None:
    """The operations listener has the probes, the metrics and the store's URI, and nothing that clients do there."""
    operations = Client(gateway, operations=True)
    members = operations.get("/v1/cluster").json()
    assert members["store"] == "memory://x"
    assert members.keys() == Client(gateway).get("/v1/cluster").json().keys()
    for path in ("/healthz", "/readyz"):
        assert operations.get(path).status_code == 200
    assert "tidelog_http_requests_total" in operations.get("/metrics", {"accept-encoding": "gzip"}).text
    assert operations.get("/metrics?x=1").json()["error_code"] == "INVALID_REQUEST"
    for path in ("/v1/fine", "/v1/topics", "/"):
        assert operations.get(path).json()["error_code"] == "NOT_FOUND"
    gateway.engine.refuse_work()
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
        assert link == "/v1/topics" or client.get(link).status_code == 200, link
    assert (b"/docs" in answer.content) is (status == 200)


def test_each_listener_judges_hosts_by_its_own_address() -> None:
    """Names that clients may use are the operator's to list; on loopback, where operators are, a web site's is refused."""
    site = {"host": "rebound.evil.example"}
    public = gateway_with(host="0.0.0.0")
    assert Client(public).get("/healthz", site).status_code == 200
    assert Client(public, operations=True).get("/healthz", site).status_code == 400
    listed = gateway_with(allowed_hosts="log.example")
    for host, status in (
        ("log.example", 200),
        ("127.0.0.1:8080", 200),
        ("gateway", 400),
        ("rebound.evil.example", 400),
    ):
        assert Client(listed).get("/healthz", {"host": host}).status_code == status, host


def test_metrics_have_bounded_labels(client: Client) -> None:
    """Whatever clients ask for, the routes in the metrics are templates or 'unmatched'."""
    for index in range(20):
        client.get(f"/nobody/{index}")
        client.request(f"METHOD{index}", "/healthz")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    routes = set(re.findall(r'tidelog_http_requests_total\{.*?route="(.*?)"', answer.text))
    assert routes == {"unmatched", "/healthz"} or routes == {"unmatched"}
    methods = set(re.findall(r'tidelog_http_requests_total\{method="(.*?)"', answer.text))
    assert methods <= {"GET", "other"}
    assert 'tidelog_http_request_seconds_bucket{le="+Inf",method="GET",route="unmatched"} 20.0' in answer.text


def test_the_docs_load_nothing_from_elsewhere(client: Client) -> None:
    """The page works without the internet: it names no other host and its policy forbids any."""
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert not re.search(r"(src|href)\s*=\s*[\"'](https?:)?//", answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_openapi_never_says_422_and_every_error_is_a_problem(client: Client) -> None:
    """The document agrees with the contract, for every operation."""
    document = client.get("/openapi.json").json()
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert operations
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for operation in operations:
        assert "422" not in operation["responses"]
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                schema = answer["content"]["application/problem+json"]["schema"]
                assert {"$ref": "#/components/schemas/Problem"} in schema["allOf"]
            if status in ("429", "503"):
                assert "Retry-After" in answer["headers"]


def test_ranges_are_exact(client: Client) -> None:
    """The largest offset of the document is the largest there is, not the next that a float can hold."""
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["Position"]["properties"]["offset"] == {
        "type": "integer",
        "format": "int64",
        "minimum": 0,
        "maximum": 2**63 - 1,
        "title": "Offset",
    }


def test_examples_agree_with_their_schemas(client: Client) -> None:
    """What the document shows is what the document says."""
    document = client.get("/openapi.json").json()
    checked = 0
    for methods in document["paths"].values():
        for operation in methods.values():
            contents = [answer.get("content", {}) for answer in operation["responses"].values()]
            contents.append(operation.get("requestBody", {}).get("content", {}))
            for content in contents:
                for media in content.values():
                    if "example" in media:
                        schema = {**media["schema"], "components": document["components"]}
                        jsonschema_rs.validate(schema, media["example"])
                        checked += 1
    for schema in document["components"]["schemas"].values():
        for example in schema.get("examples", ()):
            jsonschema_rs.validate({**schema, "components": document["components"]}, example)
            checked += 1
    assert checked > 15


async def test_work_ends_with_its_client() -> None:
    """A wait whose client left is cancelled; one whose client stays gives its result."""
    cancelled: list[bool] = []

    async def endless() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def quick() -> int:
        return 7

    def request(*messages: str) -> Request:
        left = list(messages)

        async def receive() -> dict[str, object]:
            if not left:
                await asyncio.sleep(3600)
            return {"type": left.pop(0), "body": b"", "more_body": False}

        return Request({"type": "http", "headers": []}, receive)

    with pytest.raises(ClientDisconnect):
        await unless_disconnected(request("http.request", "http.disconnect"), endless())
    assert await unless_disconnected(request("http.request"), quick()) == 7
    assert cancelled == [True]


def test_json_answers_are_compressed_on_request(client: Client) -> None:
    """The middleware is installed: a large document comes compressed and is the same document."""
    plain = client.get("/openapi.json", headers={"accept-encoding": "identity"})
    packed = client.get("/openapi.json", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(plain.content) == json.loads(packed.content)
