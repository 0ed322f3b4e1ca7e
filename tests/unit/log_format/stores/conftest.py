"""``server``: an S3 that misbehaves as it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fake_s3 import FakeS3, fake_s3, point_to


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    """The server, and this process's environment pointing to it."""
    with fake_s3() as fake:
        point_to(fake.url, monkeypatch)
        yield fake
