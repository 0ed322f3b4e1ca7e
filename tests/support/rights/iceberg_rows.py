"""The rows of the Iceberg catalog, whose answers have Iceberg's form."""

from __future__ import annotations

import re
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from tests.support.rights.row import DESCRIBE, READ, Row
from tests.support.rights.world import Answer, World

_NAMESPACES: Final = "/iceberg/v1/namespaces"
_TABLE: Final = "/iceberg/v1/namespaces/{namespace}/tables/{table}"
_SIGNED: Final = {"region": "r", "method": "GET", "uri": "http://h/topics/{topic}/segments/f.parquet", "headers": {}}
_REFUSED: Final = re.compile(r"needs (\w+) on (\w+) '([^']*)'")


def _named(world: World) -> None:
    world.names |= {"namespace": "topics", "table": world.names["topic"]}


def _asked(method: str, path: str, body: Any) -> Any:
    def call(world: World) -> Answer:
        _named(world)
        answer = world.live.http(world.token, method, world.filled(path), world.filled(body))
        refusals: tuple[Any, ...] = ()
        if answer.status_code == 403:
            found = _REFUSED.search(answer.json()["error"]["message"]) if answer.content else None
            # An answer to HEAD says nothing more than its status.
            refusals = (KafkaError.topic_authorization_failed,) if found is None else (found.groups(),)
        return Answer(answer.text, refusals, () if answer.is_success or refusals else (answer.status_code,))

    return call


def _row(operation: str, *rights: Any, body: Any = None, **more: Any) -> Row:
    method, path = operation.split(" ")
    return Row(operation=operation, rights=rights, call=_asked(method, path.replace("{plan}", "none"), body), **more)


ROWS: Final = (
    _row("GET /iceberg/v1/config"),
    _row("POST /iceberg/v1/oauth/tokens", may_fail=True),
    _row(f"GET {_NAMESPACES}"),
    _row(f"GET {_NAMESPACES}/{{namespace}}"),
    _row(f"HEAD {_NAMESPACES}/{{namespace}}"),
    _row(f"GET {_NAMESPACES}/{{namespace}}/tables", shows=((DESCRIBE, '"{topic}"'),)),
    _row(f"GET {_TABLE}", READ),
    _row(f"HEAD {_TABLE}", DESCRIBE),
    _row(f"POST {_TABLE}/plan", READ, body={}),
    _row(f"GET {_TABLE}/plan/{{plan}}", READ, may_fail=True),
    _row(f"DELETE {_TABLE}/plan/{{plan}}", READ),
    _row(f"POST {_TABLE}/sign", READ, body=_SIGNED),
    _row(f"POST {_TABLE}/tasks", READ, body={"plan-task": "none"}, may_fail=True),
)
