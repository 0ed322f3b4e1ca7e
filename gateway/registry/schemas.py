"""Schemas by id, and the list of all."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.http.parameters import path_text
from gateway.registry.asked import id_asked, registry_of, shown, visible
from gateway.registry.bodies import described, version_described
from gateway.registry.formats import text_in_format
from gateway.registry.route import Listed, Query, RegistryRoute, Text, in_pool_if
from gateway.registry.subjects import ANY_CONTEXT, MANY_SUBJECTS, page, subjects_with
from gateway.registry_problem import PREFIX
from log_format.schemas.refusals import RegistryCode, RegistryRefused, schema_not_found
from log_format.schemas.registered import Id, Place, RegisteredSchema
from log_format.schemas.schema import SchemaType
from log_format.schemas.state import SchemasState
from log_format.schemas.subjects import DEFAULT_CONTEXT, qualified, split

router = APIRouter(route_class=RegistryRoute, include_in_schema=False)

SCHEMAS_LISTED_MAX: Final = 1_000
"""Most schemas of one answer; also the default, as in Confluent's registry."""
_ID: Final = PREFIX + "/schemas/ids/{id}"
_GUID: Final = PREFIX + "/schemas/guids/{guid}"
_ENTRY_BYTES: Final = 128


class _Found(NamedTuple):
    """A schema and its context."""

    context: str
    schema: RegisteredSchema


@router.get(PREFIX + "/schemas")
@needs(Need("Read", "subject"))
async def list_schemas(request: Request) -> Any:
    """List versions of the subjects that the caller may read, with their schemas."""
    query, state = Query(request), await registry_of(request).state()
    deleted, latest_only = query.flag("deleted"), query.flag("latestOnly")
    is_long = len(state.subjects) > MANY_SUBJECTS
    named = partial(subjects_with, state, query.text("subjectPrefix", ANY_CONTEXT))
    subjects = await visible(request, "Read", await in_pool_if(request, is_long, named))

    def places() -> list[Place]:
        return [
            Place(subject, one.version)
            for subject in subjects
            for one in state.numbers(subject, deleted=deleted)[-1 if latest_only else 0 :]
        ]

    chosen = [
        (subject, found)
        for subject, number in page(query, await in_pool_if(request, is_long, places), limit_max=SCHEMAS_LISTED_MAX)
        if (found := state.registered(subject, number, deleted=True)) is not None
    ]
    size_bytes = sum(_ENTRY_BYTES + len(found.schema.text) for _, found in chosen)
    return Listed(lambda: [version_described(subject, found) for subject, found in chosen], size_bytes)


@router.get(PREFIX + "/schemas/types")
@needs()
async def list_types(request: Request) -> Any:
    """List the types of schemas."""
    del request
    return [SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO]


@router.get(_ID)
@needs(Need("Read", "subject"))
async def get_schema(request: Request) -> Any:
    """Return the schema with an id, if the caller may read a subject that has it."""
    state, found = await _found(request)
    schema = found.schema.schema
    subject = qualified(found.context, "")
    members = described(schema, text=await text_in_format(request, state, subject, schema))
    return members | {"maxId": state.next_id - 1} if Query(request).flag("fetchMaxId") else members


@router.get(_ID + "/schema")
@needs(Need("Read", "subject"))
async def get_text(request: Request) -> Any:
    """Return the text of the schema with an id."""
    state, found = await _found(request)
    return Text(await text_in_format(request, state, qualified(found.context, ""), found.schema.schema))


@router.get(_ID + "/subjects")
@needs(Need("Read", "subject"))
async def list_subjects_of(request: Request) -> Any:
    """List the subjects that have the schema with an id."""
    return list(dict.fromkeys(subject for subject, _ in await _places(request)))


@router.get(_ID + "/versions")
@needs(Need("Read", "subject"))
async def list_versions_of(request: Request) -> Any:
    """List the versions that have the schema with an id."""
    return [{"subject": subject, "version": version} for subject, version in await _places(request)]


@router.get(_GUID)
@needs(Need("Read", "subject"))
async def get_schema_by_guid(request: Request) -> Any:
    """Return the schema with a guid, if the caller may read a subject that has it."""
    state, (found, *_) = await _ids_with_guid(request)
    schema = state.schemas[found].schema
    return described(schema, text=await text_in_format(request, state, qualified(found.context, ""), schema))


@router.get(_GUID + "/ids")
@needs(Need("Read", "subject"))
async def list_ids_of_guid(request: Request) -> Any:
    """List the ids that the schema with a guid has, each with its context."""
    _, found = await _ids_with_guid(request)
    return [{"context": one.context or ".", "id": one.id} for one in found]


async def _ids_with_guid(request: Request) -> tuple[SchemasState, list[Id]]:
    """Return the ids, at least one. Raise ``RegistryRefused`` (40403)."""
    text = path_text(request, "guid")
    refusal = RegistryRefused(RegistryCode.SCHEMA_NOT_FOUND, f"Schema {text[:50]} not found")
    try:
        digested = UUID(text).bytes
    except ValueError:
        raise refusal from None

    def find(state: SchemasState) -> list[Id] | None:
        ids = state.ids_of_digest(digested)
        return [one for one in ids if shown(request, "Read", state.schemas[one].places)] or None

    state, found = await registry_of(request).found(find)
    if found is None:
        raise refusal
    return state, found


async def _places(request: Request) -> list[tuple[str, int]]:
    query = Query(request)
    state, found = await _found(request)
    places = state.places(found.schema.id, found.context, deleted=query.flag("deleted"))
    wanted = split(query.text("subject"))[1]
    named = (place for place in places if not wanted or split(place.subject)[1] == wanted)
    return page(query, shown(request, "Read", named))


async def _found(request: Request) -> tuple[SchemasState, _Found]:
    """Return the schema with the path's id. Raise ``RegistryRefused`` (40403) if there is none that the caller may read."""
    schema_id, subject = id_asked(request), Query(request).text("subject")

    def find(state: SchemasState) -> _Found | None:
        for context in _contexts(state, subject):
            schema = state.schemas.get(Id(context, schema_id))
            if schema is not None and shown(request, "Read", schema.places):
                return _Found(context, schema)
        return None

    state, found = await registry_of(request).found(find)
    if found is None:
        raise schema_not_found(schema_id)
    return state, found


def _contexts(state: SchemasState, subject: str) -> list[str]:
    """Return where to look for an id: the context of the subject; without one the default context, then each that has the
    subject."""
    context, name = split(subject)
    if context != DEFAULT_CONTEXT or not name:
        return [context]
    return [context, *(one for one in sorted(state.contexts) if one and qualified(one, name) in state.subjects)]
