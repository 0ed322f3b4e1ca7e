"""The application without a socket: errors, operations, the OpenAPI document, the order of the middlewares."""

from __future__ import annotations

import asyncio
import json
import re

import jsonschema_rs
import pytest
from starlette.requests import ClientDisconnect, Request

from gateway.app import create_app
from gateway.gateway import Gateway
from gateway.http.disconnect import cancel_on_disconnect
from gateway.openapi.problems import Problem
from gateway.openapi.schemas import schema_of
from tests.support.application import Client, engine_of, gateway_with


async def test_the_lifespan_starts_and_drains_the_engine(application: Gateway) -> None:
    """The server of the application needs to know nothing of the engine."""
    app = create_app(application)
    async with app.router.lifespan_context(app):
        assert engine_of(application).events == ["start"]
    assert engine_of(application).events == ["start", "drain"]


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
    schema = schema_of(Problem)
    jsonschema_rs.validate({**schema, "components": {"schemas": schema["$defs"]}}, members)


def test_a_refused_header_is_named(client: Client) -> None:
    """A client that counts on idempotence learns that it is not there, by the header's name."""
    answer = client.get("/v1/fine", headers={"Tidelog-Transactions": "x"})
    assert answer.json()["errors"] == [{"where": "Tidelog-Transactions", "what": "is not supported"}]


def test_405_names_the_methods(client: Client) -> None:
    """Allow goes with every 405."""
    assert client.request("POST", "/healthz").headers["allow"] == "GET, HEAD"


def test_a_client_that_went_away_is_no_error(client: Client, application: Gateway) -> None:
    """Nothing is answered, and it is counted as closed by the client, not as a failure."""
    with pytest.raises(AssertionError):  # The transport insists on an answer; there must be none.
        client.get("/v1/gone")
    text = application.metrics.exposition().decode()
    assert 'tidelog_http_requests_total{method="GET",route="/v1/gone",status="499"} 1.0' in text


def test_draining_refuses_work_but_not_operations(client: Client, application: Gateway) -> None:
    """While the gateway shuts down it says so: readiness fails, work is DRAINING, the rest answers."""
    application.engine.refuse_work()
    for path in ("/readyz", "/v1/fine"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error_code"]) == (503, "DRAINING"), path
        assert int(answer.headers["retry-after"]) > 0
    for path in ("/healthz", "/metrics", "/v1/cluster", "/openapi.json", "/docs"):
        assert client.get(path).status_code == 200, path


def test_each_listener_judges_hosts_by_its_own_address() -> None:
    """Names that clients may use are the operator's to list; on loopback, where operators are, a web site's is refused."""
    site = {"host": "rebound.evil.example"}
    public = gateway_with(host="0.0.0.0", insecure=True)
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
        await cancel_on_disconnect(request("http.request", "http.disconnect"), endless())
    assert await cancel_on_disconnect(request("http.request"), quick()) == 7
    assert cancelled == [True]


def test_json_answers_are_compressed_on_request(client: Client) -> None:
    """The middleware is installed: a large document comes compressed and is the same document."""
    plain = client.get("/openapi.json", headers={"accept-encoding": "identity"})
    packed = client.get("/openapi.json", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(plain.content) == json.loads(packed.content)
