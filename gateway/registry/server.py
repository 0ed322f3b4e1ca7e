"""What the registry says of itself: contexts, the cluster's id, the release."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.registry.asked import registry_of, visible
from gateway.registry.route import RegistryRoute
from gateway.registry_problem import PREFIX
from log_format.schemas.subjects import split
from log_format.version import __version__

router = APIRouter(route_class=RegistryRoute, include_in_schema=False)


@router.get(PREFIX)
@needs()
async def root(request: Request) -> Any:
    """Return an empty object: the registry is here."""
    del request
    return {}


@router.get(PREFIX + "/")
@needs()
async def root_with_slash(request: Request) -> Any:
    """Return an empty object: the registry is here."""
    del request
    return {}


@router.get(PREFIX + "/contexts")
@needs(Need("Describe", "subject"))
async def list_contexts(request: Request) -> Any:
    """List the contexts with a subject that the caller may describe, and the default one."""
    state = await registry_of(request).state()
    # Only those of contexts: most subjects have none.
    named = [one for one in state.subjects if one.startswith(":.")]
    found = {split(subject)[0] for subject in await visible(request, "Describe", named)}
    return [".", *sorted(found)]


@router.get(PREFIX + "/v1/metadata/id")
@needs()
async def cluster_id(request: Request) -> Any:
    """Return the id of the registry's cluster: the same from every gateway."""
    del request
    return {"scope": {"path": [], "clusters": {"schema-registry-cluster": "tidelog"}}, "id": ""}


@router.get(PREFIX + "/v1/metadata/version")
@needs()
async def release(request: Request) -> Any:
    """Return the release of the gateway."""
    del request
    return {"version": __version__, "commitId": ""}
