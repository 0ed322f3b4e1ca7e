"""Sign of life of maintenance: ``system/maintenance.json``, put again and again while ``tidelog maintain`` runs.

Rounds that a timer starts (``--once``) have no process that promises the next one. Their interval is what the option ``--timer``
says, or is learned from when the last rounds began.

A hint: nothing but what people are told depends on it. It shows that maintenance is dead long before a topic has many segments.
Two processes overwrite each other's, and a program that reads it can't tell a forged one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final

import msgspec

from log_format import layout, limits
from log_format.errors import DECODE_ERRORS, ObjectMissing, ObjectTooLarge
from log_format.store import ObjectReader, ObjectStore

SIGN_BYTES_MAX: Final = 4096
"""Maximum size of the object; a larger one is none."""
GRACE_MS: Final = 10 * 60_000
"""Time after its next round is due for which maintenance counts as running: the rewrite of a large file takes minutes."""
GRACE_SHARE: Final = 10
"""The grace is this part of the interval where that is longer: timers spread the starts of what is rare."""
STARTS_KEPT: Final = 6
"""Number of starts that are kept, and from which an interval is learned."""
REGULAR: Final = 1.5
"""Largest ratio of the longest to the shortest time between starts that a timer makes. A person's starts differ by more."""

FAILED_TOPICS_MAX: Final = 10**9

_Ms = Annotated[int, msgspec.Meta(ge=0, le=limits.TIMESTAMP_MS_MAX)]


class MaintenanceSign(msgspec.Struct, frozen=True, kw_only=True):
    """What maintenance says of itself. Times are milliseconds since the epoch, by its own clock.

    ``seen_at``: its last step. ``every_ms``: the interval of its rounds; None: it runs a round when it is started, and promises
    none. ``started_at``: of single rounds, when the last began, the newest last. ``round_ended_at``: end of the last round over
    all topics, None before the first; ``failed_topics``: of that round.
    """

    seen_at: _Ms
    every_ms: _Ms | None = None
    started_at: Annotated[tuple[_Ms, ...], msgspec.Meta(max_length=STARTS_KEPT)] = ()
    round_ended_at: _Ms | None = None
    failed_topics: Annotated[int, msgspec.Meta(ge=0, le=FAILED_TOPICS_MAX)] = 0

    @property
    def interval_ms(self) -> int | None:
        """Interval of the rounds, promised or learned; None if none can be told."""
        if self.every_ms is not None or len(self.started_at) < STARTS_KEPT:
            return self.every_ms
        gaps = [after - before for before, after in pairwise(self.started_at)]
        return max(gaps) if min(gaps) > 0 and max(gaps) <= REGULAR * min(gaps) else None

    def silent_ms(self, age_ms: int) -> int:
        """Return ``age_ms``, the time since the sign was put, if its next one is overdue by then; else 0."""
        every_ms = self.interval_ms
        return age_ms if every_ms is not None and age_ms > every_ms + max(GRACE_MS, every_ms // GRACE_SHARE) else 0


_decode: Final = msgspec.json.Decoder(MaintenanceSign).decode


def put_sign(store: ObjectStore, sign: MaintenanceSign) -> None:
    """Put the sign of life, replacing the one before. Raises ``StoreUnavailable``."""
    store.put(layout.MAINTENANCE_KEY, msgspec.json.encode(sign))


def read_sign(store: ObjectReader) -> MaintenanceSign | None:
    """Return the last sign of life; None if maintenance of a release that gives signs never ran, or the object is none.

    Raises ``StoreUnavailable``.
    """
    try:
        return _decode(store.get(layout.MAINTENANCE_KEY, bytes_max=SIGN_BYTES_MAX))
    except (*DECODE_ERRORS, ObjectMissing, ObjectTooLarge):
        return None
