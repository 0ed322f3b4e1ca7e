"""Calls of the registry's API, as any client makes them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.no_trust import NO_TRUST

JSON = "application/vnd.schemaregistry.v1+json"


def record(name: str, **fields: Any) -> str:
    """An Avro record with fields of these types; one with a default is a pair."""
    members = [
        {"name": field, "type": kind[0], "default": kind[1]}
        if isinstance(kind, tuple)
        else {"name": field, "type": kind}
        for field, kind in fields.items()
    ]
    return json.dumps({"type": "record", "name": name, "fields": members})


class Registry:
    """The API at a URL. ``refused``: what a call must be refused with."""

    def __init__(self, url: str, **options: Any) -> None:
        self.http = httpx.Client(base_url=url, timeout=60, verify=NO_TRUST, trust_env=False, **options)

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """Return the answer of a call that is not refused."""
        answer = self.asked(method, path, body, **params)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()

    def refused(self, code: int, method: str, path: str, body: Any = None, **params: Any) -> str:
        """The call is refused with this code, and the status that belongs to it. Return the message."""
        answer = self.asked(method, path, body, **params)
        assert answer.headers["content-type"] == JSON, answer.text
        assert (answer.status_code, answer.json()["error_code"]) == (int(str(code)[:3]), code), answer.text
        message: str = answer.json()["message"]
        return message

    def asked(self, method: str, path: str, body: Any = None, **params: Any) -> httpx.Response:
        """Return the answer to a call."""
        content = None if body is None else json.dumps(body)
        headers = {} if body is None else {"content-type": JSON}
        return self.http.request(method, path, content=content, headers=headers, params=params)

    def register(self, subject: str, schema: str, **members: Any) -> int:
        """Register a schema and return its id."""
        made: int = self.call("POST", f"/subjects/{quote(subject, '')}/versions", {"schema": schema, **members})["id"]
        return made
