"""Entities of any version, made from plain values by the field names of the newest version.

``make_entity(MetadataResponse, {"brokers": [{"node_id": 1, …}], …})`` leaves out fields that the version lacks, so a handler is
written once for all versions. A name that no version has raises ``TypeError``, and so does a missing field that has no default.
Milliseconds are integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from kio.index import load_entity_schema
from kio.schema.index import schema_name_map
from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveTupleField, classify_field
from kio.static.constants import EntityType


def make_entity(entity_type: Any, values: Mapping[str, object]) -> Any:
    """Return the entity with those values that its version has."""
    plan = _plan(entity_type)
    given = {}
    for name, value in values.items():
        convert = plan.get(name, _MISSING)
        if convert is _MISSING:
            _check_known(entity_type, name)
        else:
            given[name] = value if convert is None or value is None else convert(value)
    return entity_type(**given)


def prepare_entity(entity_type: Any) -> None:
    """Prepare the entity's plan, so that its first use takes no longer than later ones."""
    _plan(entity_type)


_MISSING: Any = object()


@cache
def _plan(entity_type: Any) -> Mapping[str, Callable[[Any], Any] | None]:
    return {field.name: _converter(field) for field in fields(entity_type)}


def _converter(field: Any) -> Callable[[Any], Any] | None:
    kind = classify_field(field)
    if isinstance(kind, EntityTupleField):
        nested = kind.type_
        return lambda given: tuple([one if isinstance(one, nested) else make_entity(nested, one) for one in given])
    if isinstance(kind, EntityField):
        entity = kind.type_
        return lambda given: given if isinstance(given, entity) else make_entity(entity, given)
    if isinstance(kind, PrimitiveTupleField):
        return _tuple
    kafka_type = field.metadata.get("kafka_type", "")
    if kafka_type.startswith("timedelta"):
        return _duration
    return _time if kafka_type == "datetime_i64" else None


def _tuple(given: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(given)


def _duration(given: Any) -> timedelta:
    return given if isinstance(given, timedelta) else timedelta(milliseconds=given)


def _time(given: Any) -> datetime | None:
    if isinstance(given, datetime):
        return given
    return None if given < 0 else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=given)


@cache
def _check_known(entity_type: Any, name: str) -> None:
    """Raise ``TypeError`` if no version of the entity has the field."""
    *_, message, _, module = entity_type.__module__.split(".")
    kind = EntityType[module]
    for version in schema_name_map[message]:
        root = load_entity_schema(message, version, kind)  # type: ignore[arg-type]
        for one in _entities(root):
            if one.__name__ == entity_type.__name__ and name in {field.name for field in fields(one)}:
                return
    raise TypeError(f"{entity_type.__name__} has no field {name} in any version")


def _entities(root: type[Any]) -> Iterable[type[Any]]:
    yield root
    for field in fields(root):
        kind = classify_field(field)
        if isinstance(kind, EntityField | EntityTupleField):
            yield from _entities(kind.type_)
