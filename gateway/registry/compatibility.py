"""Compatibility of a schema with a subject's versions, before it is registered."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.registry.asked import registry_of, schema_asked, subject_asked, version_asked, version_found
from gateway.registry.route import Query, RegistryRoute
from gateway.registry_problem import PREFIX
from log_format.schemas.refusals import RegistryRefused, version_not_found

router = APIRouter(route_class=RegistryRoute, include_in_schema=False)

_VERSIONS: Final = PREFIX + "/compatibility/subjects/{subject}/versions"


@router.post(_VERSIONS)
@needs(Need("Read", "subject"))
async def compare_with_all(request: Request) -> Any:
    """Say whether the schema in the body may be registered, by the subject's configuration."""
    subject = subject_asked(request, "Read")
    _, wanted = await schema_asked(request, subject)
    return _said(request, await registry_of(request).compared_with(wanted, None))


@router.post(_VERSIONS + "/{version}")
@needs(Need("Read", "subject"))
async def compare_with_one(request: Request) -> Any:
    """Say whether the schema in the body is compatible with one version of the subject; any is with the latest of a subject
    without versions."""
    subject, number = subject_asked(request, "Read"), version_asked(request)
    _, wanted = await schema_asked(request, subject)
    try:
        _, version = await version_found(request, subject, number, deleted=False)
    except RegistryRefused:
        if number is not None:
            raise version_not_found(number) from None
        version = None
    return _said(request, await registry_of(request).compared_with(wanted, version))


def _said(request: Request, messages: list[str]) -> dict[str, Any]:
    said: dict[str, Any] = {"is_compatible": not messages}
    return said | {"messages": messages} if Query(request).flag("verbose") else said
