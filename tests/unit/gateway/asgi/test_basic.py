"""Basic stands for the Bearer in its password, at the registry only."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from gateway.asgi.basic import BasicMiddleware


def _passed(path: str, value: bytes) -> bytes:
    seen: list[bytes] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.extend(dict(scope["headers"]).values())

    scope = {"type": "http", "path": path, "headers": [(b"authorization", value)]}

    async def ask() -> None:
        await BasicMiddleware(app)(scope, None, None)  # type: ignore[arg-type]

    asyncio.run(ask())
    return seen[0]


def _basic(text: bytes) -> bytes:
    return b"Basic " + base64.b64encode(text)


@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        (_basic(b"user:tl_secret"), b"Bearer tl_secret"),
        (_basic(b":tl_secret"), b"Bearer tl_secret"),
        (_basic(b"user:a:b"), b"Bearer a:b"),
        (_basic(b"user").replace(b"Basic", b"bAsIc"), b"Bearer "),
        (b"Bearer tl_secret", b"Bearer tl_secret"),
        (b"Basic ====", b"Basic ===="),
        (b"Basic", b"Basic"),
        (b"", b""),
        (b"Basic " + b"A" * 20_000, b"Basic " + b"A" * 20_000),
    ],
)
def test_the_password_is_the_credential(sent: bytes, passed: bytes) -> None:
    """What is no Basic goes on as it is, to be judged as everywhere; elsewhere all does."""
    assert _passed("/registry/subjects", sent) == passed
    assert _passed("/registry", sent) == passed
    assert _passed("/v1/topics", sent) == sent
    assert _passed("/registryx", sent) == sent
