"""Share sessions: epochs, what was acquired under which lease, and the memory that all of it takes."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kafka.shares.sessions import (
    EPOCH_MAX,
    PARTITION_BYTES,
    SESSION_BYTES,
    SESSIONS_MAX,
    AcquiredRange,
    AcquiredRecords,
    NoShareSession,
    ShareSessionLimit,
    ShareSessions,
    WrongShareEpoch,
)
from tests.support.kafka_shares import Counted

KEY = (UUID(int=1), 0)
LATER_MS = 1_000


def test_a_session_goes_from_epoch_to_epoch() -> None:
    """Each request names the next one; others are refused and change nothing."""
    sessions = ShareSessions(Counted())
    with pytest.raises(NoShareSession):
        sessions.advance("g", "m", 1)
    session = sessions.open("g", "m")
    assert sessions.advance("g", "m", 1) is session
    for wrong in (0, 1, 3):
        with pytest.raises(WrongShareEpoch):
            sessions.advance("g", "m", wrong)
    session.epoch = EPOCH_MAX
    sessions.advance("g", "m", EPOCH_MAX)
    assert sessions.advance("g", "m", 1) is session, "after the largest epoch comes 1"
    with pytest.raises(NoShareSession):
        sessions.advance("g", "another", 1)


def test_a_connection_has_room_for_some_sessions() -> None:
    """Ending them gives all memory back."""
    memory = Counted()
    sessions = ShareSessions(memory)
    for number in range(SESSIONS_MAX):
        sessions.open("g", f"m{number}")
    with pytest.raises(ShareSessionLimit):
        sessions.open("g", "one more")
    assert len(sessions.end()) == SESSIONS_MAX
    assert memory.used == 0


def test_partitions_are_added_and_forgotten_within_memory() -> None:
    """What does not fit is refused, and the session stays as it was."""
    memory = Counted(SESSION_BYTES + 2 * PARTITION_BYTES)
    sessions = ShareSessions(memory)
    session = sessions.open("g", "m")
    keys = [(UUID(int=1), number) for number in range(3)]
    sessions.update_partitions(session, keys[:2], ())
    sessions.update_partitions(session, keys[:2], ())
    assert list(session.partitions) == keys[:2]
    with pytest.raises(ShareSessionLimit):
        sessions.update_partitions(session, keys[2:], ())
    sessions.update_partitions(session, (), keys[:1])
    sessions.update_partitions(session, keys[2:], ())
    assert list(session.partitions) == keys[1:]
    sessions.close(session)
    assert memory.used == 0


def test_what_is_acquired_counts_as_memory_until_it_is_settled() -> None:
    """To the byte."""
    memory = Counted()
    sessions = ShareSessions(memory)
    session = sessions.open("g", "m")
    before = memory.used
    given = [AcquiredRange(0, 4, "1-1", LATER_MS), AcquiredRange(8, 9, "1-1", LATER_MS)]
    sessions.add_acquired(session, KEY, "t", given, 0)
    assert memory.used > before
    sessions.update_acquired(session, KEY, given, ())
    assert (memory.used, session.acquired) == (before, {})


def test_offsets_are_found_by_their_leases() -> None:
    """Also in parts; offsets that the session lacks are found by no range."""
    acquired = AcquiredRecords("t")
    acquired.add(
        [AcquiredRange(0, 4, "a", LATER_MS), AcquiredRange(5, 6, "b", LATER_MS), AcquiredRange(9, 9, "b", LATER_MS)], 0
    )
    assert acquired.split(3, 6) == [AcquiredRange(3, 4, "a", LATER_MS), AcquiredRange(5, 6, "b", LATER_MS)]
    for first, last in ((6, 9), (7, 7), (9, 10), (10, 10), (0, 2**63 - 1)):
        assert acquired.split(first, last) is None
    acquired.drop([AcquiredRange(1, 2, "a", LATER_MS), AcquiredRange(5, 6, "another", LATER_MS)])
    assert [(one.first, one.last) for one in acquired.ranges] == [(0, 0), (3, 4), (5, 6), (9, 9)]
    acquired.renew([AcquiredRange(3, 3, "a", LATER_MS)], 2 * LATER_MS)
    assert acquired.split(3, 4) == [AcquiredRange(3, 3, "a", 2 * LATER_MS), AcquiredRange(4, 4, "a", LATER_MS)]


def test_leases_that_are_over_are_forgotten() -> None:
    """By their time, or where the same offsets are given anew."""
    acquired = AcquiredRecords("t")
    acquired.add([AcquiredRange(0, 4, "old", LATER_MS), AcquiredRange(10, 14, "old", 5 * LATER_MS)], 0)
    acquired.add([AcquiredRange(12, 20, "new", 6 * LATER_MS)], LATER_MS)
    assert acquired.ranges == [AcquiredRange(12, 20, "new", 6 * LATER_MS)]


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 8)).map(
            lambda one: (one[0], one[1], one[1] + one[2])
        ),
        max_size=30,
    )
)
def test_ranges_are_what_a_map_of_offsets_would_be(steps: list[tuple[bool, int, int]]) -> None:
    """Given and dropped in any order."""
    acquired, model = AcquiredRecords("t"), dict[int, str]()
    for number, (gives, first, last) in enumerate(steps):
        if gives:
            lease = str(number)
            over = {held.lease for held in acquired.ranges if held.first <= last and first <= held.last}
            gone = [
                offset
                for held in acquired.ranges
                if held.first <= last and first <= held.last
                for offset in range(held.first, held.last + 1)
            ]
            assert over == {model[offset] for offset in gone}
            acquired.add([AcquiredRange(first, last, lease, LATER_MS)], 0)
            model = {offset: held for offset, held in model.items() if offset not in gone}
            model |= dict.fromkeys(range(first, last + 1), lease)
        else:
            pieces = acquired.split(first, last)
            wanted = [model.get(offset) for offset in range(first, last + 1)]
            assert (pieces is None) == (None in wanted)
            if pieces is not None:
                found = [one.lease for one in pieces for _ in range(one.first, one.last + 1)]
                assert found == wanted
                acquired.drop(pieces)
                model = {offset: held for offset, held in model.items() if not first <= offset <= last}
        held = [(offset, one.lease) for one in acquired.ranges for offset in range(one.first, one.last + 1)]
        assert held == sorted(model.items())
