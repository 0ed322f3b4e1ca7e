"""Calls of the HTTP API, each compared with the OpenAPI document that the gateway serves. Nothing here knows the code."""

from __future__ import annotations

import json
import re
import secrets
from functools import cache
from typing import Any

import httpx
import jsonschema_rs

from tests.support.no_trust import NO_TRUST

Json = dict[str, Any]
_PARAMETER = re.compile(r"\\\{[^}]*\\\}")
_JSON_TYPES = ("application/json", "application/problem+json")


class Agreement:
    """An OpenAPI document, and whether calls are as it says."""

    def __init__(self, document: Json) -> None:
        self._components = document["components"]
        literal_first = sorted(document["paths"], key=lambda template: len(_PARAMETER.sub("", re.escape(template))))
        self._operations = [
            (re.compile(_PARAMETER.sub("[^/]+", re.escape(template))), document["paths"][template])
            for template in reversed(literal_first)
        ]
        self._validators: dict[str, Any] = {}

    def check(self, answer: httpx.Response) -> None:
        """The status and the type of the answer are among those of its operation, and the JSON on both sides fits.

        A request that was refused may be anything, and what is no operation of the document is not looked at.
        """
        request = answer.request
        path = request.url.raw_path.decode().partition("?")[0]
        methods: Json = next((methods for pattern, methods in self._operations if pattern.fullmatch(path)), {})
        operation = methods.get(request.method.lower())
        if operation is None:
            return
        call = f"{request.method} {path} -> {answer.status_code}"
        assert str(answer.status_code) in operation["responses"], call
        content = operation["responses"][str(answer.status_code)].get("content", {})
        kind = answer.headers.get("content-type", "").partition(";")[0]
        assert not content or kind in content, (call, kind)
        if kind in _JSON_TYPES and content:
            self._fits(content[kind]["schema"], answer.read(), call)
        sent = request.headers.get("content-type") == "application/json" and isinstance(
            request.stream, httpx.ByteStream
        )
        if answer.is_success and sent and "content-encoding" not in request.headers:
            self._fits(operation["requestBody"]["content"]["application/json"]["schema"], request.content, call)

    def _fits(self, schema: Json, text: bytes, call: str) -> None:
        key = json.dumps(schema)
        if key not in self._validators:
            self._validators[key] = jsonschema_rs.validator_for({**schema, "components": self._components})
        for error in self._validators[key].iter_errors(json.loads(text)):
            raise AssertionError(f"{call}: {error}")


@cache
def _agreement(document: bytes) -> Agreement:
    """Gateways of one release serve the same document: its schemas are compiled once."""
    return Agreement(json.loads(document))


class Api:
    """Calls of one gateway, and what tests often ask of it. ``token``: the caller's credential, if one is needed."""

    def __init__(self, url: str, token: str | None = None, **config: Any) -> None:
        """``config``: of the topics that it makes, with underscores for dots."""
        self.url, self.token = url, token
        self._config = config
        self.headers = {} if token is None else {"authorization": f"Bearer {token}"}
        """Of every request, for those that are not made by ``http``."""
        self.header_lines = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        self.http = httpx.Client(base_url=url, headers=self.headers, timeout=30, trust_env=False, verify=NO_TRUST)
        self.http.event_hooks = {"response": [_agreement(self.http.get("/openapi.json").content).check]}

    def topic(self, partition_count: int = 1, **config: Any) -> str:
        """The name of a new topic; settings with underscores for dots. It flushes at once unless told otherwise."""
        name = f"test-{secrets.token_hex(6)}"
        settings = {"flush.ms": 0} | {key.replace("_", "."): value for key, value in (self._config | config).items()}
        answer = self.http.post(
            "/v1/topics", json={"name": name, "partition_count": partition_count, "config": settings}
        )
        assert answer.status_code == 201, answer.text
        return name

    def produce(self, topic: str, *records: Json, partition: int | None = None, **query: Any) -> httpx.Response:
        """JSON records, to the topic or one of its partitions."""
        place = "" if partition is None else f"/partitions/{partition}"
        return self.http.post(f"/v1/topics/{topic}{place}/records", json={"records": list(records)}, params=query)

    def produce_body(self, topic: str, content_type: str, body: bytes | str, **query: Any) -> httpx.Response:
        """A body of another type."""
        headers = {"content-type": content_type}
        return self.http.post(f"/v1/topics/{topic}/records", content=body, headers=headers, params=query)

    def fetch(self, topic: str, partition: int = 0, accept: str | None = None, **query: Any) -> httpx.Response:
        """A fetch; from the earliest record unless told otherwise."""
        if not {"offset", "timestamp"} & query.keys():
            query["offset"] = "earliest"
        headers = {} if accept is None else {"accept": accept}
        return self.http.get(f"/v1/topics/{topic}/partitions/{partition}/records", params=query, headers=headers)

    def records(self, topic: str, partition: int = 0, **query: Any) -> list[Json]:
        """The records of a partition."""
        answer = self.fetch(topic, partition, **query)
        assert answer.status_code == 200, answer.text
        found: list[Json] = answer.json()["records"]
        return found

    def refused(self, answer: httpx.Response, status: int, error_code: str) -> Json:
        """Check that an answer is this problem, whole and as the contract's table has it; return it."""
        assert answer.status_code == status, (answer.status_code, answer.text)
        assert answer.headers["content-type"].split(";")[0] == "application/problem+json"
        problem: Json = answer.json()
        assert problem["error_code"] == error_code, problem
        assert problem["status"] == status
        assert {"type", "title", "detail"} <= problem.keys()
        retryable = status in {429, 503, 504} or error_code == "INTERNAL"
        if error_code != "SEQUENCE_OUT_OF_ORDER":  # retryable when it is ahead, which the test has to know
            assert problem["retryable"] is retryable
        assert problem["may_have_happened"] is (error_code in {"INTERNAL", "OUTCOME_UNKNOWN"})
        if status in {429, 503}:
            assert int(answer.headers["retry-after"]) >= 1
        errors = problem.get("errors", [])
        assert (status == 400) <= len(errors) <= 20, problem
        assert all({"where", "what"} <= error.keys() for error in errors)
        return problem
