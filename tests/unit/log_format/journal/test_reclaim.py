"""Where a taken offer's records are, when the store does not say."""

from __future__ import annotations

import pytest

from log_format.errors import OutcomeUnknown, StoreUnavailable
from log_format.journal.reclaim import committed_bases
from log_format.stores.memory import MemoryStore
from tests.support.faulty_store import FaultyStore


def test_places_that_can_not_be_read_are_an_unknown_outcome() -> None:
    """The records are in the log: an error of the store would be taken for a defect, and refuse what waits behind them."""

    def fail(_operation: str, key: str) -> None:
        raise StoreUnavailable(key, "planted", may_have_happened=False)

    with pytest.raises(OutcomeUnknown, match="planted"):
        committed_bases(FaultyStore(MemoryStore(), before=fail), "system/journals/0/", 1, "segments/x.parquet")
