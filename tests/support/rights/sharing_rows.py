"""The rows of Delta Sharing, whose answers have its protocol's form."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.support.rights.registry_rows import asked
from tests.support.rights.row import DESCRIBE, READ, Row
from tests.support.rights.world import World

_SHARE: Final = "/delta-sharing/shares/{share}"
_TABLES: Final = _SHARE + "/schemas/{schema}/tables"
_TABLE: Final = _TABLES + "/{table}"
_SHOWN: Final = ((DESCRIBE, '"{topic}"'),)


def _named(world: World) -> None:
    world.names |= {"share": "tidelog", "schema": "topics", "table": world.names["topic"]}


def _signed(world: World) -> None:
    """The address of a file of the topic, as the caller got it."""
    _named(world)
    world.may_all()
    answer = world.live.http(world.token, "POST", world.filled(_TABLE + "/query"), {})
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    world.names["url"] = next(line["file"]["url"] for line in lines if "file" in line)


def _row(operation: str, *rights: Any, path: str | None = None, body: Any = None, **more: Any) -> Row:
    method, template = operation.split(" ")
    more.setdefault("prepare", _named)
    return Row(operation=operation, rights=rights, call=asked(method, path or template, body), **more)


ROWS: Final = (
    _row("GET /delta-sharing/shares"),
    _row(f"GET {_SHARE}"),
    _row(f"GET {_SHARE}/schemas"),
    _row(f"GET {_TABLES}", shows=_SHOWN),
    _row(f"GET {_SHARE}/all-tables", shows=_SHOWN),
    _row(f"GET {_TABLE}/version", READ),
    _row(f"GET {_TABLE}/metadata", READ),
    _row(f"POST {_TABLE}/query", READ, body={}),
    _row("GET /delta-sharing/files/{topic}/{file}", READ, path="{url}", prepare=_signed),
)
