"""A gateway with ``auth=on``, for what a principal may use, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.secured import Secured, secured_gateway


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """On an empty directory."""
    directory: Path = tmp_path_factory.mktemp("secured")
    with secured_gateway(directory) as (made, _):
        yield made
