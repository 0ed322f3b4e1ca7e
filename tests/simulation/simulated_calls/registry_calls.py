"""The schema registry's calls that change something, and what can be seen of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_calls.calls import KINDS, Call, Calls, Do, Kind

_SUBJECTS = "/registry/subjects"


def _schema(calls: Calls) -> tuple[dict[str, str], str]:
    """A body to register, and the name of a field that no other schema has. Each is compatible with each."""
    name = f"field_{calls.number()}"
    fields = [{"name": "id", "type": "long"}, {"name": name, "type": ["null", "string"], "default": None}]
    return {"schema": json.dumps({"type": "record", "name": "Order", "fields": fields})}, name


def _subject(calls: Calls, *bodies: dict[str, str]) -> str:
    """A subject of the call's own, with these versions."""
    name = f"subject-{calls.number()}"
    for body in bodies:
        schema_id = calls.do("POST", f"{_SUBJECTS}/{name}/versions", body)["id"]
        check_id(calls.schemas, schema_id, json.loads(body["schema"]))
    return name


def _one(calls: Calls) -> str:
    """A subject with one version."""
    return _subject(calls, _schema(calls)[0])


def _two(calls: Calls) -> list[dict[str, str]]:
    return [_schema(calls)[0] for _ in range(2)]


def check_id(known: dict[int, Any], schema_id: int, meant: Any) -> None:
    """Note what an id means. Raises ``Violation`` if it meant another schema before."""
    if known.setdefault(schema_id, meant) != meant:
        raise Violation(f"id {schema_id} means {meant}, and meant {known[schema_id]}")


def _register(calls: Calls, route: str) -> Call:
    body, name = _schema(calls)
    subject = _subject(calls, *(_schema(calls)[0] for _ in range(calls.rng.randrange(2))))
    return Call(route=route, path=f"{_SUBJECTS}/{subject}/versions", body=body, values=(name,))


def _register_known(calls: Calls, route: str) -> Call:
    """A schema that another subject has: it keeps its id."""
    body, _ = _schema(calls)
    _subject(calls, body)
    return Call(route=route, path=f"{_SUBJECTS}/{_subject(calls)}/versions", body=body)


def _register_again(calls: Calls, route: str) -> Call:
    """Another schema was deleted for ever: its id is not given again."""
    before, body = (_schema(calls)[0] for _ in range(2))
    subject = _subject(calls, before)
    for query in ("", "?permanent=true"):
        calls.do("DELETE", f"{_SUBJECTS}/{subject}{query}", None)
    return Call(route=route, path=f"{_SUBJECTS}/{subject}/versions", body=body)


def _import(calls: Calls, route: str) -> Call:
    """A schema whose id the client says."""
    subject = f"subject-{calls.number()}"
    calls.do("PUT", f"/registry/mode/{subject}", {"mode": "IMPORT"})
    body, name = _schema(calls)
    more = {"id": 10_000 + calls.number(), "version": 1}
    return Call(route=route, path=f"{_SUBJECTS}/{subject}/versions", body=body | more, values=(name,))


def _delete_version(calls: Calls, route: str) -> Call:
    version = calls.rng.choice(("1", "2", "latest"))
    return Call(route=route, path=f"{_SUBJECTS}/{_subject(calls, *_two(calls))}/versions/{version}")


def _delete_version_for_ever(calls: Calls, route: str) -> Call:
    path = f"{_SUBJECTS}/{_subject(calls, *_two(calls))}/versions/1"
    calls.do("DELETE", path, None)
    return Call(route=route, path=f"{path}?permanent=true")


def _delete_subject(calls: Calls, route: str) -> Call:
    return Call(route=route, path=f"{_SUBJECTS}/{_subject(calls, *_two(calls))}")


def _delete_subject_for_ever(calls: Calls, route: str) -> Call:
    path = f"{_SUBJECTS}/{_subject(calls, *_two(calls))}"
    calls.do("DELETE", path, None)
    return Call(route=route, path=f"{path}?permanent=true")


def _put_config(calls: Calls, route: str) -> Call:
    return Call(route=route, path="/registry/config", body=_level(calls))


def _put_config_of_subject(calls: Calls, route: str) -> Call:
    return Call(route=route, path=f"/registry/config/{_one(calls)}", body=_level(calls))


def _delete_config(calls: Calls, route: str) -> Call:
    calls.do("PUT", "/registry/config", _level(calls))
    return Call(route=route, path="/registry/config")


def _delete_config_of_subject(calls: Calls, route: str) -> Call:
    path = f"/registry/config/{_one(calls)}"
    calls.do("PUT", path, _level(calls))
    return Call(route=route, path=path)


def _put_mode(calls: Calls, route: str) -> Call:
    return Call(route=route, path="/registry/mode", body={"mode": "READWRITE"})


def _put_mode_of_subject(calls: Calls, route: str) -> Call:
    mode = calls.rng.choice(("READONLY", "READWRITE"))
    return Call(route=route, path=f"/registry/mode/{_one(calls)}", body={"mode": mode})


def _delete_mode(calls: Calls, route: str) -> Call:
    calls.do("PUT", "/registry/mode", {"mode": "READWRITE"})
    return Call(route=route, path="/registry/mode")


def _delete_mode_of_subject(calls: Calls, route: str) -> Call:
    path = f"/registry/mode/{_one(calls)}"
    calls.do("PUT", path, {"mode": "READONLY"})
    return Call(route=route, path=path)


def _delete_context(calls: Calls, route: str) -> Call:
    """Only its settings are there."""
    context = f":.context-{calls.number()}:"
    calls.do("PUT", f"/registry/config/{context}", _level(calls))
    return Call(route=route, path=f"/registry/contexts/{context}")


def _level(calls: Calls) -> dict[str, str]:
    return {"compatibility": calls.rng.choice(("NONE", "FULL", "BACKWARD_TRANSITIVE"))}


EVERY_KIND: Mapping[str, tuple[Kind, ...]] = {
    **KINDS,
    "POST /registry/subjects/{subject}/versions": (_register, _register_known, _register_again, _import),
    "DELETE /registry/subjects/{subject}/versions/{version}": (_delete_version, _delete_version_for_ever),
    "DELETE /registry/subjects/{subject}": (_delete_subject, _delete_subject_for_ever),
    "PUT /registry/config": (_put_config,),
    "PUT /registry/config/{subject}": (_put_config_of_subject,),
    "DELETE /registry/config": (_delete_config,),
    "DELETE /registry/config/{subject}": (_delete_config_of_subject,),
    "PUT /registry/mode": (_put_mode,),
    "PUT /registry/mode/{subject}": (_put_mode_of_subject,),
    "DELETE /registry/mode": (_delete_mode,),
    "DELETE /registry/mode/{subject}": (_delete_mode_of_subject,),
    "DELETE /registry/contexts/{context}": (_delete_context,),
}
"""By route; every route that changes something."""


def registry_view(do: Do, known: dict[int, Any]) -> dict[str, Any]:
    """What the registry shows. ``known``: what each id was seen to mean; raises ``Violation`` where one means another schema."""
    view: dict[str, Any] = {"config": do("GET", "/registry/config", None), "mode": do("GET", "/registry/mode", None)}
    live = set(do("GET", _SUBJECTS, None))
    for subject in do("GET", f"{_SUBJECTS}?deleted=true", None):
        path = f"{_SUBJECTS}/{subject}/versions"
        view[f"live versions of {subject}"] = do("GET", path, None) if subject in live else []
        for kind in ("config", "mode"):
            view[f"{kind} of {subject}"] = do("GET", f"/registry/{kind}/{subject}", None, may_be_gone=True)
        for version in do("GET", f"{path}?deleted=true", None):
            found = do("GET", f"{path}/{version}?deleted=true", None)
            meant = json.loads(found["schema"])
            check_id(known, found["id"], meant)
            by_id = do("GET", f"/registry/schemas/ids/{found['id']}", None)
            if json.loads(by_id["schema"]) != meant:
                raise Violation(f"id {found['id']} gives {by_id}, and is {meant} in {subject}")
            view[f"version {version} of {subject}"] = found | {"schema": meant}
    return view
