"""A table without a checkpoint is looked at without asking for its hint each time, and no checkpoint stays unseen for long."""

from __future__ import annotations

from contextlib import suppress

import pytest

from gateway.stores.missing_hints import HINTS_MAX, MISSING_MS, MissingHints
from log_format.errors import ObjectMissing
from log_format.layout import table_commit_key, table_last_checkpoint_key
from tests.support.asked_store import AskedStore
from tests.support.clocks import ManualClock


def hint(table: str) -> str:
    return table_last_checkpoint_key(f"system/{table}/")


@pytest.fixture
def inner() -> AskedStore:
    """Empty."""
    return AskedStore()


@pytest.fixture
def clock() -> ManualClock:
    """Of ``store``."""
    return ManualClock()


@pytest.fixture
def store(inner: AskedStore, clock: ManualClock) -> MissingHints:
    """Around ``inner``."""
    return MissingHints(inner, clock)


def test_a_missing_hint_is_asked_for_once_in_a_while(
    store: MissingHints, inner: AskedStore, clock: ManualClock
) -> None:
    """Another gateway's is seen when the time is over."""
    for _ in range(3):
        with pytest.raises(ObjectMissing):
            store.get(hint("queues"))
    assert inner.asked == [hint("queues")]
    inner.put(hint("queues"), b"theirs")
    clock.pass_ms(MISSING_MS)
    assert [store.get(hint("queues")), store.get(hint("queues"))] == [b"theirs", b"theirs"]


def test_an_own_hint_is_there_at_once(store: MissingHints) -> None:
    """It was missing before."""
    with pytest.raises(ObjectMissing):
        store.get(hint("queues"))
    store.put(hint("queues"), b"mine")
    assert store.get(hint("queues")) == b"mine"


def test_only_hints_are_remembered_and_not_too_many(store: MissingHints, inner: AskedStore) -> None:
    """A commit that is missing now may be there in a moment, and its table is read by that."""
    keys = [table_commit_key("system/queues/", 1), *(hint(f"t{number}") for number in range(HINTS_MAX + 1))]
    for key in (*keys, *keys[:2], keys[-1]):
        with suppress(ObjectMissing):
            store.get(key)
    assert inner.asked == [*keys, *keys[:2]]
