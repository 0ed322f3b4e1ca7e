"""docs/http-api.md section 8: operations."""

from __future__ import annotations

import re

from tests.support.http_api import Api


def test_probes(api: Api) -> None:
    """Alive and ready."""
    assert api.http.get("/healthz").status_code == 200
    assert api.http.get("/readyz").status_code == 200


def test_metrics_have_bounded_labels(api: Api) -> None:
    """Prometheus' text format; routes are templates: no topic's name is in it."""
    topic = api.topic()
    for _ in range(100):  # of several gateways, the one that is asked appends some of them
        api.produce(topic, {"value": "x"})
        api.records(topic)
        answer = api.http.get("/metrics")
        assert answer.status_code == 200
        if re.search(r"^tidelog_appended_records_total [1-9]", answer.text, re.MULTILINE):
            break
    assert answer.headers["content-type"].startswith("text/plain")
    assert topic not in answer.text
    assert "/v1/topics/{topic}/records" in answer.text
    assert re.search(r"^tidelog_appended_records_total [1-9]", answer.text, re.MULTILINE)
    for line in answer.text.splitlines():
        assert line.startswith("#") or re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*(\{.*\})? \S+( \d+)?", line), line


def test_the_openapi_document_and_its_page(api: Api) -> None:
    """Every route of the contract is described, none answers 422; the page loads nothing from elsewhere."""
    document = api.http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    for path, methods in {
        "/v1/topics": {"get", "post"},
        "/v1/topics/{topic}": {"get", "patch", "delete"},
        "/v1/topics/{topic}:delete-records": {"post"},
        "/v1/topics/{topic}/records": {"post"},
        "/v1/topics/{topic}/partitions/{partition}/records": {"get", "post"},
        "/v1/topics/{topic}/partitions/{partition}/offsets": {"get"},
        "/v1/fetch": {"post"},
        "/v1/cluster": {"get"},
        "/healthz": {"get"},
        "/readyz": {"get"},
        "/metrics": {"get"},
    }.items():
        assert methods <= document["paths"][path].keys(), path
        for method in methods:
            assert "422" not in document["paths"][path][method]["responses"]
    page = api.http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", page.text)


def test_the_cluster(api: Api) -> None:
    """The gateways that serve the store, and the limits of this one."""
    cluster = api.http.get("/v1/cluster").json()
    assert {"gateways", "store", "version", "limits", "journals"} <= cluster.keys()
    assert {"in_use", "topics", "held_back"} <= cluster["journals"].keys()
    assert {"id", "url", "started_at", "owned_topics"} <= cluster["gateways"][0].keys()
    assert isinstance(cluster["limits"]["request_bytes_max"], int)
    # Where the store is, is nothing that clients need; which one it is, is.
    assert re.fullmatch("[a-z0-9]+:[0-9a-f]{16}", cluster["store"])
