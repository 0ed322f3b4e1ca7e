"""Fetch sessions: ids, epochs, whose they are, what has news, and their bounds (KIP-227)."""

from __future__ import annotations

from itertools import count

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.fetch_sessions import (
    IDLE_MS,
    NEW_SESSION_EPOCH,
    NO_SESSION_EPOCH,
    FetchSession,
    FetchSessions,
    SessionPartition,
)
from tests.support.clocks import ManualClock


def sessions(clock: ManualClock | None = None, partitions_max: int = 100, sessions_max: int = 10) -> FetchSessions:
    numbers = count(7)
    return FetchSessions(
        clock or ManualClock(), lambda: next(numbers), partitions_max=partitions_max, sessions_max=sessions_max
    )


def asked(*partitions: int, offset: int = 0) -> list[SessionPartition]:
    return [SessionPartition("t", partition, offset, 1) for partition in partitions]


def begun(of: FetchSessions, *partitions: int, principal: str = "p") -> FetchSession:
    session = of.update_session(principal, 0, NEW_SESSION_EPOCH, asked(*partitions), [])
    assert isinstance(session, FetchSession)
    return session


def test_a_session_keeps_what_is_not_named_again() -> None:
    """Partitions are added, changed and forgotten by the requests behind the first one."""
    all_of_them = sessions()
    session = begun(all_of_them, 0, 1, 2)
    assert (session.id, session.is_incremental) == (7, False)
    again = all_of_them.update_session("p", 7, 1, [*asked(1, offset=5), *asked(3)], [("t", 2)])
    assert again is session
    assert session.is_incremental
    assert [(one.partition, one.offset) for one in session.partitions.values()] == [(0, 0), (1, 5), (3, 0)]
    assert all_of_them.update_session("p", 7, 2, [], []) is session


def test_a_request_outside_any_session_is_kept_nowhere() -> None:
    """It has no id, and ends the session that it names."""
    all_of_them = sessions()
    begun(all_of_them, 0)
    alone = all_of_them.update_session("p", 7, NO_SESSION_EPOCH, asked(1), [])
    assert isinstance(alone, FetchSession)
    assert (alone.id, list(alone.partitions), all_of_them.count) == (0, [("t", 1)], 0)


def test_another_epoch_id_or_principal_is_refused() -> None:
    """Each by its own code; the session goes on."""
    all_of_them = sessions()
    begun(all_of_them, 0)
    assert all_of_them.update_session("p", 7, 2, [], []) is KafkaError.invalid_fetch_session_epoch
    assert all_of_them.update_session("p", 8, 1, [], []) is KafkaError.fetch_session_id_not_found
    assert all_of_them.update_session("q", 7, 1, [], []) is KafkaError.fetch_session_id_not_found
    all_of_them.update_session("q", 7, NO_SESSION_EPOCH, [], [])
    assert isinstance(all_of_them.update_session("p", 7, 1, [], []), FetchSession)


def test_only_news_is_told_and_what_gave_records_goes_last() -> None:
    """Records, another watermark or log start, an error; the first answer has all."""
    all_of_them = sessions()
    session = begun(all_of_them, 0, 1)
    zero, one = session.partitions.values()
    assert session.has_news(zero, (5, 0), has_records=True)
    assert session.has_news(one, (0, 0), has_records=False)
    assert [each.partition for each in session.partitions.values()] == [1, 0]
    all_of_them.update_session("p", 7, 1, [], [])
    assert not session.has_news(zero, (5, 0), has_records=False)
    assert session.has_news(zero, (6, 0), has_records=False)
    assert session.has_news(zero, (6, 1), has_records=False)
    assert session.has_news(zero, None, has_records=False)
    assert session.has_news(zero, None, has_records=False), "an error is told each time"
    assert session.has_news(zero, (6, 1), has_records=False), "it was told an error last"


def test_the_bounds_hold_and_idle_sessions_make_room() -> None:
    """Without room a client has no session; one that grows beyond is forgotten."""
    clock = ManualClock()
    all_of_them = sessions(clock, partitions_max=5, sessions_max=2)
    first, second = begun(all_of_them, 0, 1), begun(all_of_them, 0, 1)
    assert begun(all_of_them, 0).id == 0, "two sessions are the most"
    assert all_of_them.update_session("p", first.id, 1, asked(2, 3), []) is KafkaError.fetch_session_id_not_found
    assert (all_of_them.count, all_of_them.partition_count) == (1, 2)
    assert begun(all_of_them, 0, 1, 2, 3).id == 0
    clock.pass_ms(IDLE_MS)
    third = begun(all_of_them, 0, 1, 2, 3, 4)
    assert (third.id > 0, all_of_them.count, all_of_them.partition_count) == (True, 1, 5)
    assert all_of_them.update_session("p", second.id, 1, [], []) is KafkaError.fetch_session_id_not_found


def test_the_epoch_begins_anew_behind_the_largest() -> None:
    """It is an int32, and 0 is the word for a new session."""
    all_of_them = sessions()
    session = begun(all_of_them, 0)
    session.epoch = 2**31 - 1
    assert all_of_them.update_session("p", 7, 2**31 - 1, [], []) is session
    assert all_of_them.update_session("p", 7, 1, [], []) is session
