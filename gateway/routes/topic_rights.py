"""The check of the rights that a topic's settings need beyond the right to set them."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from gateway.gateway import engine_of, gateway_of, require
from gateway.schemas.needed_rights import rights_of_settings


async def require_named(request: Request, topic: str, config: Mapping[str, object]) -> None:
    """Raise ``Unauthorized`` unless the caller has the rights of ``rights_of_settings``."""
    if gateway_of(request).rights.enforced:
        for operation, kind, name in await rights_of_settings(engine_of(request).schemas, topic, config):
            require(request, operation, kind, name)
