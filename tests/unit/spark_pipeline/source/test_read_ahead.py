"""Reading ahead changes when items are made, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from spark_pipeline.source.read_ahead import read_ahead


def test_items_come_in_order_and_errors_in_their_place() -> None:
    """What was made before an error is given before it."""

    def items() -> Iterator[int]:
        yield from range(3)
        raise RuntimeError("the store is gone")

    found: list[int] = []
    with pytest.raises(RuntimeError, match="the store is gone"):
        found.extend(read_ahead(items()))
    assert found == [0, 1, 2]
    assert list(read_ahead(iter([]))) == []


def test_one_item_is_made_while_another_is_used_and_no_more() -> None:
    """The next is under way before it is asked for; the one behind it is not, so that memory is bounded."""
    made: list[int] = []
    second = threading.Event()

    def items() -> Iterator[int]:
        for number in range(4):
            made.append(number)
            if number == 1:
                second.set()
            yield number

    ahead = read_ahead(items())
    assert next(ahead) == 0
    assert second.wait(30)
    assert made == [0, 1]
    ahead.close()  # type: ignore[attr-defined]
    assert made == [0, 1]
