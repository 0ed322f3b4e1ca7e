"""What a request of the registry names: a subject and the right to it, a version, an id.

A subject has several spellings (``:.:name`` is ``name``), so its right is judged here, by the one that counts, and not by the
path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from starlette.requests import Request

from gateway.gateway import allowing, engine_of, gateway_of, require
from gateway.http.parameters import path_text
from gateway.registry.bodies import LATEST_VERSION, SCHEMA_BODY, SchemaBody, schema_of
from gateway.registry.route import Query, body_of
from gateway.schemas.schema_registry import Registration, SchemaRegistry
from log_format.access.acls import Operation
from log_format.schemas.refusals import (
    RegistryCode,
    RegistryRefused,
    invalid_schema,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from log_format.schemas.registered import RegisteredVersion
from log_format.schemas.schema import Schema
from log_format.schemas.state import SchemasState
from log_format.schemas.subjects import in_context, is_valid, plain, split

_VERSION_MAX: Final = 2**31 - 1
LATEST: Final = ("latest", "-1")
JUDGED_AT_ONCE: Final = 500
"""Subjects whose rights are judged before other requests get their turn: about a millisecond."""


def registry_of(request: Request) -> SchemaRegistry:
    """Return the schema registry of the gateway that serves the request."""
    return engine_of(request).schemas


def subject_asked(request: Request, operation: Operation) -> str:
    """Return the path's subject. Raise ``Unauthorized`` without the right to the operation on it."""
    subject = plain(path_text(request, "subject"))
    require(request, operation, "subject", subject)
    return subject


def version_asked(request: Request) -> int | None:
    """Return the path's version; None: the latest. Raise ``RegistryRefused`` (42202)."""
    text = path_text(request, "version")
    if text in LATEST:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= _VERSION_MAX:
        return int(text)
    raise RegistryRefused(
        RegistryCode.INVALID_VERSION,
        f"The specified version '{text[:100]}' is not a valid version id. Allowed values are between [1, 2^31-1] and the"
        ' string "latest"',
    )


def id_asked(request: Request) -> int:
    """Return the path's id. Raise ``RegistryRefused``: 40403 for a number that is none, 404 for another text."""
    text = path_text(request, "id")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10 and int(digits) <= _VERSION_MAX):
        raise RegistryRefused(RegistryCode.NOT_FOUND, "HTTP 404 Not Found")
    if (schema_id := int(text)) < 1:
        raise schema_not_found(schema_id)
    return schema_id


async def schema_asked(request: Request, subject: str) -> tuple[SchemaBody, Registration]:
    """Return the body, and the schema in it. Raise ``Unauthorized`` without Read on the subjects that it refers to."""
    if not is_valid(subject):
        raise RegistryRefused(RegistryCode.INVALID_SUBJECT, f"The subject '{subject[:100]}' is not valid")
    body = await body_of(request, SCHEMA_BODY)
    references = body.references or ()
    is_latest_asked = any(one.version == LATEST_VERSION for one in references)
    state = await registry_of(request).state() if is_latest_asked else None
    context = split(subject)[0]

    def latest(named: str) -> int:
        require(request, "Read", "subject", in_context(named, context))
        found = None if state is None else state.latest(in_context(named, context))
        if found is None:
            raise invalid_schema(f'No schema reference found for subject "{named}" and version {LATEST_VERSION}')
        return found.version

    schema = schema_of(body, latest)
    require(request, "Read", "subject", *referred(schema, subject))
    return body, Registration(subject=subject, schema=schema, normalize=Query(request).flag("normalize"))


def referred(schema: Schema, subject: str) -> Iterable[str]:
    """Return the subjects that a schema of this subject refers to, each once."""
    context = split(subject)[0]
    return dict.fromkeys(in_context(one.subject, context) for one in schema.references)


async def version_found(
    request: Request, subject: str, number: int | None, *, deleted: bool
) -> tuple[SchemasState, RegisteredVersion]:
    """Return a version of a subject; ``number`` None: the latest. Raise ``RegistryRefused`` (40401, 40402)."""

    def find(state: SchemasState) -> RegisteredVersion | None:
        if number is None:
            return state.latest(subject, deleted=deleted)
        return state.registered(subject, number, deleted=deleted)

    if number is None:
        state = await registry_of(request).state()
        found = find(state)
    else:
        state, found = await registry_of(request).found(find)
    if found is not None:
        return state, found
    if not state.numbers(subject, deleted=deleted):
        raise subject_not_found(subject)
    raise version_not_found("latest" if number is None else number)


async def visible(request: Request, operation: Operation, subjects: Sequence[str]) -> Sequence[str]:
    """Return the subjects that the caller may see, in their order. Other requests are served while many are judged."""
    if not gateway_of(request).rights.enforced:
        return subjects
    allows, found = allowing(request, operation, "subject"), list[str]()
    for first in range(0, len(subjects), JUDGED_AT_ONCE):
        found += filter(allows, subjects[first : first + JUDGED_AT_ONCE])
        await asyncio.sleep(0)
    return found


def shown(request: Request, operation: Operation, entries: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the entries, each with its subject, of which the caller may see the subject."""
    allows = allowing(request, operation, "subject")
    return [entry for entry in entries if allows(entry[0])]
