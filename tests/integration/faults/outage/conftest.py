"""``own_minio``: a MinIO server that a test may freeze, kill and restart on the same port and data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.minio import Minio


@pytest.fixture(scope="module")
def own_minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """Running, with an empty bucket ``log``; a test leaves it running."""
    server = Minio(tmp_path_factory.mktemp("own-minio"))
    server.create_bucket("log")
    yield server
    server.kill()
