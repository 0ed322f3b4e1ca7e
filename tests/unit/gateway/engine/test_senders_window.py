"""What an early flush learns of how many batches a sender has under way when it waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.engine.early_flush import EarlyFlush
from gateway.engine.group_commit import IMMEDIATELY, EntryQueue

FLUSH_SECONDS = 0.25


def test_batches_sent_at_once_share_a_flush() -> None:
    """A sender that waits for all answers before it sends again: its first batch is taken alone, and the next time all five are
    taken together, although four came while the first one was committed."""
    early, waiting, now = EarlyFlush(3_600, 86_400, label="t"), EntryQueue[Any](), 0.0

    def sent(count: int) -> float:
        for _ in range(count):
            entry: Any = SimpleNamespace(sender="a", payer=None, arrived=now, size_bytes=1)
            waiting.append(entry)
        return early.due(waiting, now, flush_seconds=FLUSH_SECONDS, is_under_way=False)

    def taken() -> list[Any]:
        early.on_taken(waiting, len(waiting.entries), now, FLUSH_SECONDS)
        return waiting.take(len(waiting.entries))

    assert sent(1) == IMMEDIATELY
    first = taken()
    sent(4)
    early.on_ended(waiting, first, now)
    early.on_ended(waiting, taken(), now)
    assert sent(4) > now
    assert sent(1) == IMMEDIATELY
