"""docs/http-api.md section 1: rules for every call."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
import zstandard

from tests.support.http_api import Api

ENCODERS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


def in_raw(api: Api, request: bytes) -> bytes:
    """What comes back for these bytes, until the gateway closes."""
    with socket.create_connection((urlsplit(api.url).hostname, urlsplit(api.url).port), timeout=30) as connection:
        connection.sendall(request.replace(b"Host: x\r\n", b"Host: x\r\n" + api.header_lines.encode()))
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_request_bodies_may_be_compressed(api: Api, encoding: str) -> None:
    """Either encoding is undone before the body is looked at."""
    topic = api.topic()
    body = ENCODERS[encoding](json.dumps({"records": [{"value": "x" * 5000}]}).encode())
    headers = {"content-type": "application/json", "content-encoding": encoding}
    assert api.http.post(f"/v1/topics/{topic}/records", content=body, headers=headers).status_code == 200
    assert api.records(topic)[0]["value"] == "x" * 5000


def test_other_encodings_and_corrupt_streams_are_refused(api: Api) -> None:
    """Another name: 415. A corrupt or cut stream: 400. Nothing is appended."""
    topic = api.topic()
    whole = gzip.compress(b'{"records":[{"value":"x"}]}')
    path = f"/v1/topics/{topic}/records"
    json_type = {"content-type": "application/json"}
    api.refused(
        api.http.post(path, content=whole, headers=json_type | {"content-encoding": "br"}),
        415,
        "UNSUPPORTED_MEDIA_TYPE",
    )
    for body in (whole[:-9], b"not gzip at all", whole[:15] + b"\xff\xff" + whole[17:]):
        answer = api.http.post(path, content=body, headers=json_type | {"content-encoding": "gzip"})
        api.refused(answer, 400, "INVALID_REQUEST")
    assert api.records(topic) == []


@pytest.mark.parametrize(("accept", "used"), [("gzip", "gzip"), ("zstd", "zstd"), ("gzip, zstd", "zstd"), ("br", None)])
def test_answers_above_1_kib_are_compressed_when_asked(api: Api, accept: str, used: str | None) -> None:
    """zstd when both are accepted; ``Vary`` says on what it depends; small answers stay as they are."""
    topic = api.topic()
    api.produce(topic, {"value": "x" * 5000})
    path = f"/v1/topics/{topic}/partitions/0/records?offset=0"
    answer = api.http.get(path, headers={"accept-encoding": accept})
    assert answer.headers.get("content-encoding") == used
    assert "accept-encoding" in answer.headers["vary"].lower()
    assert answer.json()["records"][0]["value"] == "x" * 5000
    small = api.http.get("/healthz", headers={"accept-encoding": accept})
    assert "content-encoding" not in small.headers


def test_request_ids_are_echoed_or_made(api: Api) -> None:
    """Up to 128 printable ASCII characters come back; anything else is replaced, and errors have one, too."""
    assert api.http.get("/healthz", headers={"x-request-id": "my id-7"}).headers["x-request-id"] == "my id-7"
    assert api.http.get("/healthz", headers={"x-request-id": "y" * 128}).headers["x-request-id"] == "y" * 128
    made = {api.http.get("/healthz").headers["x-request-id"] for _ in range(3)}
    assert len(made) == 3
    assert all(made)
    assert api.http.get("/healthz", headers={"x-request-id": "z" * 129}).headers["x-request-id"] != "z" * 129
    assert api.http.get("/nowhere", headers={"x-request-id": "abc"}).headers["x-request-id"] == "abc"


def test_unknown_routes_and_methods_are_problems(api: Api) -> None:
    """404 ``NOT_FOUND``, 405 ``METHOD_NOT_ALLOWED`` with ``Allow``."""
    api.refused(api.http.get("/v1/nothing"), 404, "NOT_FOUND")
    api.refused(api.http.get("/"), 404, "NOT_FOUND")
    answer = api.http.put("/v1/topics", json={})
    api.refused(answer, 405, "METHOD_NOT_ALLOWED")
    assert {"GET", "POST"} <= {method.strip() for method in answer.headers["allow"].split(",")}


def test_head_says_what_get_would(api: Api) -> None:
    """HEAD is answered wherever GET is, with the same status and headers and without a body; an event stream ends at once."""
    topic = api.topic()
    records = f"/v1/topics/{topic}/partitions/0/records"
    sent = api.http.post(records, json={"records": [{"value": "x" * 3000}]})
    assert sent.status_code == 200, sent.text
    read = f"{records}?offset=0"
    own = {"date", "x-request-id"}
    for path in ("/healthz", "/readyz", f"/v1/topics/{topic}", read, "/v1/topics/nobody-made-this", "/nowhere"):
        for encoding in ("identity", "zstd"):
            answers = [
                api.http.request(method, path, headers={"accept-encoding": encoding}) for method in ("GET", "HEAD")
            ]
            got, head = ({k: v for k, v in answer.headers.items() if k not in own} for answer in answers)
            assert (answers[1].status_code, answers[1].content) == (answers[0].status_code, b"")
            assert head == got, path
    stream = api.http.head(read, headers={"accept": "text/event-stream"})
    assert (stream.status_code, stream.content) == (200, b"")
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert api.http.get("/healthz").status_code == 200


def test_the_body_limit_is_enforced_while_bytes_come(api: Api) -> None:
    """413 with ``limit_bytes``, by length, in chunks without a length, and for what a small body decompresses to."""
    topic = api.topic()
    limit = api.http.get("/v1/cluster").json()["limits"]["request_bytes_max"]
    path = f"/v1/topics/{topic}/records"
    assert (
        api.http.post(path, content=b"x" * 1024, headers={"content-type": "application/octet-stream"}).status_code
        == 200
    )
    bomb = gzip.compress(bytes(limit * 4))
    headers = {"content-type": "application/octet-stream", "content-encoding": "gzip"}
    problem = api.refused(api.http.post(path, content=bomb, headers=headers), 413, "REQUEST_TOO_LARGE")
    assert problem["limit_bytes"] == limit
    host, port = urlsplit(api.url).hostname, urlsplit(api.url).port
    assert host is not None
    connection = http.client.HTTPConnection(host, port, timeout=30)
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/octet-stream")
    connection.putheader("Content-Length", str(1 << 30))
    for header in api.headers.items():
        connection.putheader(*header)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["limit_bytes"] == limit
    connection.close()
    sent = 0
    with socket.create_connection((host, port), timeout=30) as raw:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\n{api.header_lines}Content-Type: application/octet-stream\r\n"
            "Transfer-Encoding: chunked\r\n\r\n"
        )
        raw.sendall(head.encode())
        piece = b"10000\r\n" + bytes(0x10000) + b"\r\n"
        try:
            while sent < limit * 3:
                raw.sendall(piece)
                sent += 0x10000
        except OSError:
            pass
        try:
            status = raw.recv(65536)
        except OSError:
            status = b""
    assert sent < limit * 3 or status.startswith(b"HTTP/1.1 413")
    assert api.records(topic, max_bytes=1 << 20)[-1]["offset"] == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/topics?limits=3"),
        ("GET", "/v1/cluster?x=1"),
        ("GET", "/v1/topics/{t}?verbose=1"),
        ("GET", "/v1/topics/{t}/partitions/0/records?offset=0&max_record=3"),
        ("GET", "/v1/topics/{t}/partitions/0/records?offset=0&offset=0"),
        ("GET", "/v1/topics/{t}/partitions/0/offsets?time=3"),
        ("DELETE", "/v1/topics/{t}?force=true"),
        ("POST", "/v1/topics/{t}/records?ack=0"),
        ("POST", "/v1/topics/{t}/records?key=x"),
        ("POST", "/v1/fetch?wait=1"),
    ],
)
def test_unknown_query_parameters_are_refused(api: Api, method: str, path: str) -> None:
    """A typing error never passes silently: 400 naming the parameter, and nothing happened."""
    topic = api.topic()
    body = {"records": [{"value": "x"}]} if method == "POST" else None
    problem = api.refused(api.http.request(method, path.format(t=topic), json=body), 400, "INVALID_REQUEST")
    assert problem["errors"][0]["where"] in path
    assert api.http.get(f"/v1/topics/{topic}").json()["partitions"][0]["high_watermark"] == 0


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/topics", {"name": "x", "partitions": 3}, "/partitions"),
        ("/v1/topics/{t}:delete-records", {"before": [{"partition": 0, "ofset": 1}]}, "/before/0/ofset"),
        ("/v1/fetch", {"partitions": [], "max": 1}, "/max"),
        ("/v1/topics/{t}/records", {"records": [{"value": "x", "kye": "y"}]}, "/records/0/kye"),
        ("/v1/topics/{t}/records", {"records": [], "more": 1}, "/more"),
    ],
)
def test_unknown_members_are_refused(api: Api, path: str, body: Any, where: str) -> None:
    """400 naming the member by its JSON pointer."""
    answer = api.http.post(path.format(t=api.topic()), json=body)
    problem = api.refused(answer, 400, answer.json()["error_code"])
    assert where in [error["where"] for error in problem["errors"]]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/topics", '{"name":"a","name":"b"}'),
        ("/v1/topics", '{"name":"a","config":{"flush.ms":1,"flush.ms":1}}'),
        ("/v1/topics/{t}/records", '{"records":[{"value":"a","value":"a"}]}'),
        ("/v1/topics/{t}/records", '{"records":[{"value":"a"}],"records":[]}'),
        ("/v1/topics/{t}/records", '{"records":[{"value":"a","headers":{"x":"1","x":"1"}}]}'),
        ("/v1/fetch", '{"partitions":[],"partitions":[]}'),
    ],
)
def test_a_member_named_twice_is_refused(api: Api, path: str, body: str) -> None:
    """400, whatever the two say."""
    answer = api.http.post(path.format(t=api.topic()), content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error_code"] in {"INVALID_REQUEST", "INVALID_RECORD"}


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "nul", '{"name":1}', '{"name":"a"}x', "\ufeff{}", '{"name":"\\ud800"}', "NaN"]
)
def test_malformed_json_is_refused(api: Api, body: str) -> None:
    """400, never 500 or 422."""
    for path in ("/v1/topics", "/v1/fetch", f"/v1/topics/{api.topic()}/records"):
        answer = api.http.post(path, content=body.encode(), headers={"content-type": "application/json"})
        assert answer.status_code == 400, (path, answer.text)
    deep = b'{"name":' + b"[" * 100_000
    for path in ("/v1/topics", "/v1/fetch"):
        answer = api.http.post(path, content=deep, headers={"content-type": "application/json"})
        api.refused(answer, 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "path",
    ["/v1/topics/%ff", "/v1/topics?prefix=%ff", "/v1/topics?" + "&".join(f"p{number}=" for number in range(101))],
)
def test_what_is_refused_before_it_is_read_says_where_too(api: Api, path: str) -> None:
    """Every 400 has ``errors``, also for a path or a query that can't be looked at."""
    api.refused(api.http.get(path), 400, "INVALID_REQUEST")


def test_what_is_no_http_is_a_problem(api: Api) -> None:
    """400 with ``errors`` and an id, for an unreadable method, length or line; then the gateway ends the connection."""
    for head in (b"NONSENSE /healthz HTTP/1.1", b"POST /v1/topics HTTP/1.1\r\nContent-Length: x", b"nothing at all"):
        answer = in_raw(api, head + b"\r\nHost: x\r\n\r\n")
        lines, _, body = answer.partition(b"\r\n\r\n")
        assert lines.startswith(b"HTTP/1.1 400 "), answer
        assert b"\r\nx-request-id: " in lines.lower()
        assert json.loads(body)["error_code"] == "INVALID_REQUEST"
        assert json.loads(body)["errors"]


def test_a_transfer_coding_that_is_not_undone_is_refused(api: Api) -> None:
    """Compressed in transfer, which hardly anybody does, a body would be stored as something else: 400, and nothing is."""
    topic = api.topic()
    head = f"POST /v1/topics/{topic}/records HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    for coding, status in (("gzip, chunked", 400), ("Chunked", 200)):
        answer = in_raw(api, f"{head}Transfer-Encoding: {coding}\r\n\r\n1\r\nx\r\n0\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert [record["value"] for record in api.records(topic)] == ["x"]


def test_a_body_of_another_type_is_refused(api: Api) -> None:
    """415, also without a type, as a web page may send it; a charset may be named."""
    name = api.topic()
    path = f"/v1/topics/{name}/records"
    for headers in ({}, {"content-type": "application/xml"}, {"content-type": "application/x-www-form-urlencoded"}):
        for other in ("/v1/topics", "/v1/fetch", "/v1/records", "/v1/producers", path):
            answer = api.http.post(other, content=b'{"records":[{"value":"x"}]}', headers=headers)
            api.refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
        assert api.http.post(path, content=iter([b'{"records":[]}']), headers=headers).status_code == 415
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        answer = api.http.post(path, content=b'{"records":[{"value":"x"}]}', headers={"content-type": kind})
        assert answer.status_code == 200, (kind, answer.text)
    assert len(api.records(name)) == 2


def test_what_is_not_sent_needs_no_type(api: Api) -> None:
    """A call whose body may be left out works without; where it may not, what is missing is the body."""
    assert api.http.post("/v1/producers").status_code == 201
    for path in ("/v1/topics", "/v1/fetch", f"/v1/topics/{api.topic()}/records"):
        api.refused(api.http.post(path), 400, "INVALID_REQUEST")


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_a_web_page_can_not_drive_the_gateway(api: Api, headers: dict[str, str]) -> None:
    """What a page of another origin may send without asking, whatever it is called, changes nothing."""
    topic = api.topic()
    records = f"/v1/topics/{topic}/records"
    plain = {"content-type": "text/plain"}
    api.refused(api.http.post(records, content=b"x", headers=plain | headers), 400, "INVALID_REQUEST")
    api.refused(api.http.post("/v1/producers", headers=headers), 400, "INVALID_REQUEST")
    api.refused(api.http.delete(f"/v1/topics/{topic}", headers=headers), 400, "INVALID_REQUEST")
    assert api.records(topic) == []
    own = {"origin": api.url}
    assert api.http.post(records, content=b"x", headers=plain | own).status_code == 200


def test_trailers_are_no_headers(api: Api) -> None:
    """What comes behind a body, and so behind a proxy's back, changes nothing."""
    topic = api.topic()
    head = f"POST /v1/topics/{topic}/partitions/0/records HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    trailers = "Tidelog-Expected-Offset: 77\r\nContent-Encoding: gzip\r\nOrigin: https://evil\r\n"
    framing = "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
    # The second request comes behind the first one's trailers, and has none of them.
    one, two = f"{head}{framing}\r\n1\r\nx\r\n0\r\n{trailers}\r\n", f"{head}{framing}\r\n1\r\ny\r\n0\r\n\r\n"
    answers = in_raw(api, one.replace("Connection: close\r\n", "").encode() + two.encode())
    assert answers.count(b"HTTP/1.1 200 ") == 2, answers
    assert [record["value"] for record in api.records(topic)] == ["x", "y"]


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        ("GET /healthz HTTP/1.1", "Host: x\r\n", 200),
        ("GET http://x/healthz HTTP/1.1", "Host: X\r\n", 200),
        ("GET /healthz HTTP/1.0", "", 200),
        ("GET /healthz", "", 400),
        ("GET /healthz HTTP/0.9", "Host: x\r\n", 400),
        ("GET /healthz HTTP/2.0", "Host: x\r\n", 400),
        ("GET /healthz HTTP/1.1", "", 400),
        ("GET /healthz HTTP/1.1", "Host:\r\n", 400),
        ("GET /healthz HTTP/1.1", "Host: x\r\nhost: x\r\n", 400),
        ("GET /healthz HTTP/1.0", "Host: x\r\nHost: y\r\n", 400),
        ("GET http://y/healthz HTTP/1.1", "Host: x\r\n", 400),
        ("GET /healthz HTTP/1.1", "Host: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nHost: y\r\n", 400),
        ("POST /v1/producers HTTP/1.0", "Host: x\r\nTransfer-Encoding: chunked\r\n", 400),
        ("GET /healthz HTTP/1.1", "Host: x\r\nX: a\r\n folded\r\n", 400),
        ("GET /healthz HTTP/1.1", "Host: x\r\nX: a\0b\r\n", 400),
    ],
)
def test_what_two_could_read_in_two_ways_is_refused(api: Api, request_line: str, headers: str, status: int) -> None:
    """A head that a proxy in front might take for something else is 400: other versions, hosts that are missing or two."""
    answer = in_raw(api, f"{request_line}\r\n{headers}Connection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert status == 200 or json.loads(answer.partition(b"\r\n\r\n")[2])["error_code"] == "INVALID_REQUEST"


def test_topic_names_in_paths_play_no_tricks(api: Api) -> None:
    """What can't name a topic names none: 404 in paths; 400 ``INVALID_TOPIC_NAME`` where one is made."""
    for name in ("..%2F..%2Fetc", "%2e%2e", "a%20b", "a%00b", "%F0%9F%92%A9", "x" * 250, "a%2Fb"):
        answer = api.http.get(f"/v1/topics/{name}")
        assert answer.status_code == 404, (name, answer.text)
    for name in ("", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\u0000", "_delta_log/.."):
        problem = api.refused(api.http.post("/v1/topics", json={"name": name}), 400, "INVALID_TOPIC_NAME")
        assert problem["errors"][0]["where"] == "/name"


def test_a_line_break_behind_a_path_is_part_of_it(api: Api) -> None:
    """So it is another path: of nothing, or of something else by that name."""
    topic = api.topic()
    for path in ("/v1/topics%0A", f"/v1/topics/{topic}/partitions/0/offsets%0A", "/v1/groups/nobody/offsets%0A"):
        api.refused(api.http.get(path), 404, "NOT_FOUND")
    api.refused(api.http.get(f"/v1/topics/{topic}%0A"), 404, "UNKNOWN_TOPIC")


@pytest.mark.parametrize("partition", ["x", "-1", "1.0", "9" * 30, "0x0", "%30%00", "1"])
def test_partitions_in_paths(api: Api, partition: str) -> None:
    """No number, or one that the topic does not have: 404 ``UNKNOWN_PARTITION``."""
    topic = api.topic()
    for path in ("records?offset=0", "offsets"):
        answer = api.http.get(f"/v1/topics/{topic}/partitions/{partition}/{path}")
        api.refused(answer, 404, "UNKNOWN_PARTITION")
    answer = api.http.post(f"/v1/topics/{topic}/partitions/{partition}/records", json={"records": [{"value": "x"}]})
    api.refused(answer, 404, "UNKNOWN_PARTITION")


def test_headers_that_do_not_work_yet_are_refused(api: Api) -> None:
    """A ``Tidelog-`` header that is not understood is never ignored silently."""
    topic = api.topic()
    answer = api.http.post(
        f"/v1/topics/{topic}/records", json={"records": [{"value": "x"}]}, headers={"Tidelog-Unknown-Thing": "1"}
    )
    problem = api.refused(answer, 400, "INVALID_REQUEST")
    assert problem["errors"][0]["where"] == "Tidelog-Unknown-Thing"


def test_ten_thousand_headers_do_no_harm(api: Api) -> None:
    """They are refused, or ignored; the gateway goes on."""
    headers = "".join(f"x-{number}: y\r\n" for number in range(10_000))
    answer = in_raw(api, f"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n".encode())
    assert answer[:13] in {b"HTTP/1.1 200 ", b"HTTP/1.1 400 ", b"HTTP/1.1 431 "}, answer
    assert api.http.get("/healthz").status_code == 200


def test_a_client_that_leaves_in_the_middle_of_its_body_does_no_harm(api: Api) -> None:
    """Nothing of it is appended."""
    topic = api.topic()
    for _ in range(20):
        with socket.create_connection((urlsplit(api.url).hostname, urlsplit(api.url).port), timeout=10) as raw:
            raw.sendall(
                f"POST /v1/topics/{topic}/records HTTP/1.1\r\nHost: x\r\n{api.header_lines}"
                "Content-Type: application/json\r\n"
                'Content-Length: 1000\r\n\r\n{"records":[{"value":"x"}]}'.encode()
            )
    assert api.records(topic) == []
