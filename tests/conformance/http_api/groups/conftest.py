"""Fixtures of tests of consumer groups: each test has a group of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.group_calls import GroupCalls
from tests.support.http_api import Api


@pytest.fixture
def new_group(api: Api) -> Iterator[Callable[..., GroupCalls]]:
    """Makes the calls of a group, by its name if one is given."""
    made: list[GroupCalls] = []

    def make(name: str | None = None) -> GroupCalls:
        made.append(GroupCalls(api, name))
        return made[-1]

    yield make
    for group in made:
        group.end()


@pytest.fixture
def group(new_group: Callable[..., GroupCalls]) -> GroupCalls:
    """A group of this test's own."""
    return new_group()
