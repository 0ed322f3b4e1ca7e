"""A plugin of pytest for Karapace's tests: fixtures that name the registry at ``REGISTRY_URL``, which is empty before each test.

It runs in Karapace's environment, and imports nothing of this repository. Two modules of Karapace are made when it is built, and
are not needed by its tests of the API: a library in Go, and the number of its version.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import types
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest_plugins = ("aiohttp.pytest_plugin",)


def _stand_in(name: str, **members: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


_stand_in("karapace.version", __version__="0", __version_tuple__=(0,))
_stand_in(
    "karapace.core.protobuf.protopace.protopace",
    check_compatibility=None,
    format_proto=None,
    Proto=None,
    IncompatibleError=type("IncompatibleError", (Exception,), {}),
)


@pytest.fixture(autouse=True)
def empty_registry() -> None:
    """All subjects are deleted, and the settings of all."""
    for path in ("/config", "/mode"):
        _call("DELETE", path)
    left = subjects = _call("GET", "/subjects?deleted=true")
    while left:
        for subject in left:
            named = "/subjects/" + urllib.request.quote(subject, safe="")  # type: ignore[attr-defined]
            for path in (named, f"{named}?permanent=true"):
                _call("DELETE", path)
        left = _call("GET", "/subjects?deleted=true")
        assert left != subjects, "no subject can be deleted"
        subjects = left


def _call(method: str, path: str) -> Any:
    request = urllib.request.Request(os.environ["REGISTRY_URL"] + path, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError:
        return None


@pytest.fixture
def registry_cluster(request: pytest.FixtureRequest) -> None:
    """Tests may give it settings, which are Karapace's own."""


@pytest.fixture
async def registry_async_client(loop: object, registry_cluster: None) -> AsyncIterator[Any]:
    """Karapace's client."""
    client = importlib.import_module("karapace.core.client").Client(server_uri=os.environ["REGISTRY_URL"])
    yield client
    await client.close()


@pytest.fixture
async def registry_async_retry_client(registry_async_client: Any) -> Any:
    """The same, which asks again."""
    return importlib.import_module("tests.integration.utils.rest_client").RetryRestClient(registry_async_client)
