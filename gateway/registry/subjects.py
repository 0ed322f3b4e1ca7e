"""Subjects and their versions: listing, registering, looking up, deleting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.registry.asked import (
    registry_of,
    schema_asked,
    shown,
    subject_asked,
    version_asked,
    version_found,
    visible,
)
from gateway.registry.bodies import described, properties_of, version_described
from gateway.registry.formats import text_in_format
from gateway.registry.route import Listed, Query, RegistryRoute, Text, in_pool_if
from gateway.registry_problem import PREFIX
from log_format.schemas.deletions import DeleteSubject, DeleteVersion
from log_format.schemas.refusals import invalid_schema, schema_not_found, subject_not_found
from log_format.schemas.state import SchemasState
from log_format.schemas.subjects import plain, split

router = APIRouter(route_class=RegistryRoute, include_in_schema=False)

ANY_CONTEXT: Final = ":*:"
"""Beginning of a prefix that is one of names in every context."""
_SUBJECT: Final = PREFIX + "/subjects/{subject}"
_VERSIONS: Final = _SUBJECT + "/versions"
_VERSION: Final = _VERSIONS + "/{version}"
MANY_SUBJECTS: Final = 1_000
"""Number of subjects above which they are gone through in a thread."""
_ENTRY_BYTES: Final = 8
"""Bytes of an entry of a list, beside its name."""


@router.get(PREFIX + "/subjects")
@needs(Need("Describe", "subject"))
async def list_subjects(request: Request) -> Any:
    """List the subjects that the caller may describe."""
    query, state = Query(request), await registry_of(request).state()
    wants_deleted, deleted_only = query.flag("deleted"), query.flag("deletedOnly")

    def named() -> list[str]:
        found = subjects_with(state, query.text("subjectPrefix", ANY_CONTEXT))
        if deleted_only:
            return [one for one in found if not state.numbers(one)]
        return found if wants_deleted else [one for one in found if state.numbers(one)]

    found = await in_pool_if(request, len(state.subjects) > MANY_SUBJECTS, named)
    listed = page(query, await visible(request, "Describe", found))
    return Listed(lambda: listed, sum(_ENTRY_BYTES + len(one) for one in listed))


@router.post(_SUBJECT)
@needs(Need("Read", "subject"))
async def look_up(request: Request) -> Any:
    """Return the version of the subject that has the schema in the body."""
    subject = subject_asked(request, "Read")
    deleted = Query(request).flag("deleted")
    _, wanted = await schema_asked(request, subject)
    state, found = await registry_of(request).looked_up(wanted, deleted=deleted)
    if found is None:
        raise schema_not_found() if state.numbers(subject, deleted=deleted) else subject_not_found(subject)
    return version_described(subject, found, text=await text_in_format(request, state, subject, found.schema))


@router.delete(_SUBJECT)
@needs(Need("Delete", "subject"))
async def delete_subject(request: Request) -> Any:
    """Delete all versions of the subject; return their numbers."""
    subject = subject_asked(request, "Delete")
    decided = await registry_of(request).decide(
        DeleteSubject(subject=subject, permanent=Query(request).flag("permanent"))
    )
    return decided.versions


@router.get(_VERSIONS)
@needs(Need("Describe", "subject"))
async def list_versions(request: Request) -> Any:
    """List the versions of the subject."""
    subject, query = subject_asked(request, "Describe"), Query(request)

    state = await registry_of(request).state()
    numbers = state.numbers(subject, deleted=query.flag("deleted") or query.flag("deletedOnly"))
    found = [one.version for one in numbers if one.is_deleted or not query.flag("deletedOnly")]
    if not found:
        raise subject_not_found(subject)
    return page(query, found)


@router.post(_VERSIONS)
@needs(Need("Write", "subject"))
async def register(request: Request) -> Any:
    """Register the schema in the body as a version of the subject, unless it is one; return its id."""
    subject = subject_asked(request, "Write")
    body, wanted = await schema_asked(request, subject)
    if body.id is not None and body.id < 1 and body.id != -1:
        raise invalid_schema(f"{body.id} is no id of a schema")
    registered = await registry_of(request).register(
        type(wanted)(
            subject=subject,
            schema=wanted.schema,
            normalize=wanted.normalize,
            schema_id=None if body.id == -1 else body.id,
            version=body.version if body.version is not None and body.version > 0 else None,
        )
    )
    return {"id": registered.id, "version": registered.version, **described(registered.schema)}


@router.get(_SUBJECT + "/metadata")
@needs(Need("Read", "subject"))
async def get_latest_with_metadata(request: Request) -> Any:
    """Return the latest version of the subject whose metadata has the properties ``key`` and ``value``, given in pairs."""
    subject, query = subject_asked(request, "Read"), Query(request)
    wanted = dict(zip(query.texts("key"), query.texts("value"), strict=False))
    state = await registry_of(request).state()
    for one in reversed(state.versions(subject, deleted=query.flag("deleted"))):
        if wanted.items() <= properties_of(one.schema).items():
            return version_described(subject, one)
    raise subject_not_found(subject) if not state.numbers(subject) else schema_not_found()


@router.get(_VERSION)
@needs(Need("Read", "subject"))
async def get_version(request: Request) -> Any:
    """Return a version of the subject with its schema."""
    subject = subject_asked(request, "Read")
    deleted = Query(request).flag("deleted")
    state, found = await version_found(request, subject, version_asked(request), deleted=deleted)
    return version_described(subject, found, text=await text_in_format(request, state, subject, found.schema))


@router.get(_VERSION + "/schema")
@needs(Need("Read", "subject"))
async def get_schema_text(request: Request) -> Any:
    """Return the text of a version's schema."""
    subject = subject_asked(request, "Read")
    deleted = Query(request).flag("deleted")
    state, found = await version_found(request, subject, version_asked(request), deleted=deleted)
    return Text(await text_in_format(request, state, subject, found.schema))


@router.get(_VERSION + "/referencedby")
@needs(Need("Read", "subject"))
async def list_referring(request: Request) -> Any:
    """List the ids of the schemas that refer to a version of the subject, as far as the caller may read one of their subjects."""
    subject = subject_asked(request, "Read")
    state, found = await version_found(request, subject, version_asked(request), deleted=True)
    context = split(subject)[0]
    listed = [
        one
        for one in state.referring(subject, found.version)
        if shown(request, "Read", state.places(one, context, deleted=True))
    ]
    return page(Query(request), listed)


@router.delete(_VERSION)
@needs(Need("Delete", "subject"))
async def delete_version(request: Request) -> Any:
    """Delete a version of the subject; return its number."""
    subject = subject_asked(request, "Delete")
    decision = DeleteVersion(
        subject=subject, version=version_asked(request), permanent=Query(request).flag("permanent")
    )
    return (await registry_of(request).decide(decision)).version


def subjects_with(state: SchemasState, prefix: str) -> list[str]:
    """Return the subjects with a prefix, sorted, deleted ones included. ``:*:`` at its beginning stands for every context."""
    if prefix.startswith(ANY_CONTEXT):
        wanted = prefix.removeprefix(ANY_CONTEXT)
        return sorted(one for one in state.subjects if split(one)[1].startswith(wanted))
    wanted = plain(prefix)
    is_default = not split(wanted)[0]
    return sorted(one for one in state.subjects if one.startswith(wanted) and (not is_default or not split(one)[0]))


def page(query: Query, entries: Sequence[Any], *, limit_max: int | None = None) -> list[Any]:
    """Return the part of a list that ``offset`` and ``limit`` name."""
    offset, limit = max(0, query.number("offset", 0)), query.number("limit", -1)
    if limit_max is not None:
        limit = limit_max if limit < 0 else min(limit, limit_max)
    return list(entries[offset:] if limit < 0 else entries[offset : offset + limit])
