"""A test may be a coroutine: it runs on an event loop of its own, and must end within 60 seconds."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.support.async_tests import AT_END


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run it if it is one."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await pyfuncitem.obj(**arguments)
            if AT_END in pyfuncitem.stash:
                await pyfuncitem.stash[AT_END]()

    asyncio.run(bounded())
    return True
