"""Rights that a commit needs: those to all that its staged objects name.

A request that stages is judged when it comes. Its object lies in the store until the commit, as may objects that anyone with
access to that prefix has put there. So the names in the objects are judged again, by the rights of the caller that commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from gateway.applied_transactions.staging import Staged
from log_format.queues.row import PendingSettlement

Need = tuple[Literal["Read", "Write"], Literal["topic", "group"], str]
Require = Callable[[Literal["Read", "Write"], Literal["topic", "group"], str], None]
"""Function that raises ``Unauthorized`` if the caller lacks the right, ``BackOff`` if that is not known."""


def needed_rights(staged: Staged, held: Iterable[PendingSettlement]) -> Iterator[Need]:
    """Yield each needed right once: Write on topics with records; Read on groups, on the topics of their offsets, on queues, and
    on the topics of the settlements that the queues hold."""
    needs: dict[Need, None] = {}
    for records in staged.records.values():
        needs["Write", "topic", records.topic] = None
    for offsets in staged.offsets.values():
        needs["Read", "group", offsets.group] = None
        needs.update({("Read", "topic", offset.topic): None for offset in offsets.offsets})
    for settlements in staged.settlements.values():
        needs["Read", "group", settlements.queue] = None
    for pending in held:
        needs.update({("Read", "topic", change.topic): None for change in (*pending.on_commit, *pending.on_abort)})
    yield from needs
