"""A gateway with ``auth=on`` for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.secured import Secured, secured_gateway


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_gateway(tmp_path_factory.mktemp("secured"), "--super-users", "User:root, User:toor") as (made, _):
        yield made
