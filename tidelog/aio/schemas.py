"""``Schemas`` for asyncio: the schema registry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from tidelog.aio.in_thread import in_thread
from tidelog.calls.schemas import Schemas as BlockingSchemas

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _awaited(
    method: Callable[Concatenate[BlockingSchemas, _P], _T],
) -> Callable[Concatenate[Schemas, _P], Coroutine[Any, Any, _T]]:
    """Wrap a blocking method as a coroutine. Cancelling the coroutine does not stop the call in its thread."""

    @wraps(method)
    async def call(self: Schemas, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        return await asyncio.shield(in_thread(partial(method, self._schemas, *arguments, **named)))

    return call


class Schemas:
    """asyncio version of ``tidelog.calls.schemas.Schemas``."""

    def __init__(self, schemas: BlockingSchemas) -> None:
        self._schemas = schemas

    register = _awaited(BlockingSchemas.register)
    look_up = _awaited(BlockingSchemas.look_up)
    check = _awaited(BlockingSchemas.check)
    subjects = _awaited(BlockingSchemas.subjects)
    versions = _awaited(BlockingSchemas.versions)
    latest = _awaited(BlockingSchemas.latest)
    version = _awaited(BlockingSchemas.version)
    by_id = _awaited(BlockingSchemas.by_id)
    delete = _awaited(BlockingSchemas.delete)
    compatibility = _awaited(BlockingSchemas.compatibility)
    set_compatibility = _awaited(BlockingSchemas.set_compatibility)
    set_config = _awaited(BlockingSchemas.set_config)
    mode = _awaited(BlockingSchemas.mode)
    set_mode = _awaited(BlockingSchemas.set_mode)
    import_version = _awaited(BlockingSchemas.import_version)
