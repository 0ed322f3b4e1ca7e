"""The rows of the schema registry, whose answers have Confluent's form."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.support.rights.row import ALTER_CLUSTER, Row
from tests.support.rights.world import Answer, World

_SUBJECT: Final = "/registry/subjects/{subject}"
_VERSION: Final = _SUBJECT + "/versions/{version}"
_COMPARE: Final = "/registry/compatibility/subjects/{subject}/versions"
_ID: Final = "/registry/schemas/ids/{id}"
_TEXT: Final = '{"type":"record","name":"X{mark}","fields":[]}'
_SCHEMA: Final = {"schema": '{"type":"array","items":"X{mark}"}'}
_REFERENCE: Final = {"name": "X{mark}", "subject": "{other_subject}", "version": 1}
_READ: Final = ("Read", "subject", "{subject}")
_READ_OTHER: Final = ("Read", "subject", "{other_subject}")
_WRITE: Final = ("Write", "subject", "{subject}")
_DESCRIBE: Final = ("Describe", "subject", "{subject}")
_ALTER: Final = ("Alter", "subject", "{subject}")
_DELETE: Final = ("Delete", "subject", "{subject}")
_REFUSED: Final = re.compile(r"needs (\w+) on (\w+) '([^']*)'")


def _registered(world: World) -> None:
    """Two subjects with the same schema, one with another that refers to it, and settings of one."""
    mark = world.names["mark"]
    world.names |= {"subject": f"subject-{mark}", "other_subject": f"other-subject-{mark}", "version": "latest"}
    world.admin("PUT", "/registry/config/{subject}", {"compatibility": "NONE"})
    world.admin("PUT", "/registry/mode/{subject}", {"mode": "READWRITE"})
    for name in ("{other_subject}", "{subject}"):
        made = world.admin("POST", f"/registry/subjects/{name}/versions", {"schema": _TEXT.replace("{mark}", mark)})
        world.names |= {"id": str(made["id"]), "guid": made["guid"]}


def _context(world: World) -> None:
    world.names["context"] = "." + world.names["mark"]


def _referred(world: World) -> None:
    _registered(world)
    made = world.admin("POST", "/registry/subjects/{other_subject}-by/versions", _by("{subject}"))
    world.names["by"] = str(made["id"])
    world.names["version"] = "1"


def _by(subject: str) -> dict[str, Any]:
    return _SCHEMA | {"references": [_REFERENCE | {"subject": subject}]}


def asked(method: str, path: str, body: Any) -> Any:
    def call(world: World) -> Answer:
        # Braces of a schema's text are none of a name.
        answer = world.live.http(world.token, method, world.filled(path), world.filled(body))
        found = _REFUSED.search(answer.json().get("message", "")) if answer.status_code == 403 else None
        refusals = () if found is None else (found.groups(),)
        return Answer(answer.text, refusals, () if answer.is_success or refusals else (answer.status_code,))

    return call


def _row(operation: str, *rights: Any, body: Any = None, query: str = "", **more: Any) -> Row:
    method, path = operation.split(" ")
    more.setdefault("prepare", _registered)
    return Row(operation=operation, rights=rights, call=asked(method, path + query, body), **more)


ROWS: Final = (
    _row("GET /registry"),
    _row("GET /registry/contexts"),
    _row("GET /registry/v1/metadata/id"),
    _row("GET /registry/v1/metadata/deployment"),
    _row("GET /registry/v1/metadata/version"),
    _row("DELETE /registry/contexts/{context}", ("Delete", "subject", ":.{mark}:"), prepare=_context),
    _row("GET /registry/schemas/guids/{guid}", shows=((_READ, "X{mark}"),)),
    _row("GET /registry/schemas/guids/{guid}/ids", shows=((_READ, '"id":{id}'),)),
    _row("GET /registry/schemas/types"),
    _row("GET /registry/subjects", shows=((_DESCRIBE, '"{subject}"'),)),
    _row("GET /registry/schemas", shows=((_READ, '"{subject}"'),)),
    _row(f"POST {_SUBJECT}", _READ, body={"schema": _TEXT}),
    _row(f"POST {_SUBJECT}", _READ, _READ_OTHER, what="that refers", body=_by("{other_subject}"), may_fail=True),
    _row(f"DELETE {_SUBJECT}", _DELETE),
    _row(f"GET {_SUBJECT}/versions", _DESCRIBE),
    _row(f"POST {_SUBJECT}/versions", _WRITE, body={"schema": '"int"'}),
    _row(f"POST {_SUBJECT}/versions", _WRITE, _READ_OTHER, what="that refers", body=_by("{other_subject}")),
    _row(f"GET {_VERSION}", _READ),
    _row(f"GET {_VERSION}/schema", _READ),
    _row(
        f"GET {_VERSION}/referencedby",
        _READ,
        shows=((("Read", "subject", "{other_subject}-by"), "[{by}]"),),
        prepare=_referred,
    ),
    _row(f"GET {_SUBJECT}/metadata", _READ),
    _row(f"DELETE {_VERSION}", _DELETE),
    *(
        _row(f"GET {_ID}{more}", shows=((_READ, shown),))
        for more, shown in (
            ("", "X{mark}"),
            ("/schema", "X{mark}"),
            ("/subjects", '"{subject}"'),
            ("/versions", '"{subject}"'),
        )
    ),
    _row("GET /registry/config"),
    _row("PUT /registry/config", ALTER_CLUSTER, body={"compatibility": "BACKWARD"}),
    _row("DELETE /registry/config", ALTER_CLUSTER),
    _row("GET /registry/config/{subject}", _DESCRIBE),
    _row("PUT /registry/config/{subject}", _ALTER, body={"compatibility": "FULL"}),
    _row("DELETE /registry/config/{subject}", _ALTER),
    _row("GET /registry/mode"),
    _row("PUT /registry/mode", ALTER_CLUSTER, body={"mode": "READWRITE"}),
    _row("DELETE /registry/mode", ALTER_CLUSTER),
    _row("GET /registry/mode/{subject}", _DESCRIBE),
    _row("PUT /registry/mode/{subject}", _ALTER, body={"mode": "READWRITE"}),
    _row("DELETE /registry/mode/{subject}", _ALTER),
    _row(f"POST {_COMPARE}", _READ, body={"schema": '"int"'}),
    _row(f"POST {_COMPARE}", _READ, _READ_OTHER, what="that refers", body=_by("{other_subject}")),
    _row(f"POST {_COMPARE}/{{version}}", _READ, body={"schema": '"int"'}),
)
