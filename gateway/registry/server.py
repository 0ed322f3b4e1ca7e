"""What the registry says of itself: contexts, the cluster's id, the release."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.gateway import require
from gateway.http.parameters import path_text
from gateway.registry.asked import registry_of, visible
from gateway.registry.context_path import context_named
from gateway.registry.route import Query, RegistryRoute
from gateway.registry.subjects import page
from gateway.registry_problem import PREFIX
from log_format.schemas.deletions import DeleteContext
from log_format.schemas.subjects import split
from log_format.version import __version__

router = APIRouter(route_class=RegistryRoute, include_in_schema=False)


@router.get(PREFIX)
@needs()
async def root(request: Request) -> Any:
    """Return an empty object: the registry is here."""
    del request
    return {}


@router.get(PREFIX + "/contexts")
@needs(Need("Describe", "subject"))
async def list_contexts(request: Request) -> Any:
    """List the contexts with a subject that the caller may describe, and the default one."""
    query, state = Query(request), await registry_of(request).state()
    # Only those of contexts: most subjects have none.
    named = [one for one in state.subjects if one.startswith(":.")]
    found = {split(subject)[0] for subject in await visible(request, "Describe", named)}
    prefix = query.text("contextPrefix")
    return page(query, [one for one in (".", *sorted(found)) if one.startswith(prefix)])


@router.delete(PREFIX + "/contexts/{context}")
@needs(Need("Delete", "subject"))
async def delete_context(request: Request) -> Any:
    """Delete the settings of a context without schemas, which is all that there is of it."""
    subject = context_named(path_text(request, "context"))
    require(request, "Delete", "subject", subject)
    await registry_of(request).decide(DeleteContext(subject=subject))
    return None


@router.get(PREFIX + "/v1/metadata/id")
@needs()
async def cluster_id(request: Request) -> Any:
    """Return the id of the registry's cluster: the same from every gateway."""
    del request
    return {"scope": {"path": [], "clusters": {"schema-registry-cluster": "tidelog"}}, "id": ""}


@router.get(PREFIX + "/v1/metadata/deployment")
@needs()
async def deployment(request: Request) -> Any:
    """Return the attributes of the registry's deployment: it has none."""
    del request
    return {"attributes": []}


@router.get(PREFIX + "/v1/metadata/version")
@needs()
async def release(request: Request) -> Any:
    """Return the release of the gateway."""
    del request
    return {"version": __version__, "commitId": ""}
