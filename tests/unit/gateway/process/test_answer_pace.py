"""Which clients take too little of their answers."""

from __future__ import annotations

from gateway.process.answer_pace import PROGRESS_BYTES_MIN, TAKEN_BYTES_MIN, UNREAD_MS, AnswerPace

BEGUN_MS = 1_000_000_000
STALL_MS = 60_000
WRITTEN = 100 * PROGRESS_BYTES_MIN


def seconds_until_cut(bytes_per_second: int, *, is_needed: bool) -> int | None:
    """Of a client that takes so much; None: it gets all."""
    pace = AnswerPace(STALL_MS, BEGUN_MS)
    for second in range(1, 100):
        taken = bytes_per_second * second
        if pace.disconnect_reason(WRITTEN, WRITTEN - taken, BEGUN_MS + second * 1000, is_needed=is_needed):
            return second
    return None


def test_a_client_has_time_to_begin() -> None:
    """A connection that is looked at for the first time in the middle of an answer is not taken to have stood since ever."""
    assert AnswerPace(STALL_MS, BEGUN_MS).disconnect_reason(300_000, 200_000, BEGUN_MS + 900, is_needed=True) is None


def test_who_reads_nothing_is_cut_and_sooner_while_others_wait() -> None:
    """After ``write_stall_ms``; after three seconds when its memory is needed."""
    assert seconds_until_cut(0, is_needed=False) == STALL_MS // 1000 + 1
    assert seconds_until_cut(0, is_needed=True) == UNREAD_MS // 1000 + 1


def test_who_reads_steadily_is_not_cut() -> None:
    """However slowly within the bounds; more is asked of it while others wait."""
    slow, slower = TAKEN_BYTES_MIN * 1000 // UNREAD_MS + 1, PROGRESS_BYTES_MIN * 1000 // STALL_MS + 1
    assert seconds_until_cut(slow, is_needed=True) is None
    assert seconds_until_cut(slower, is_needed=False) is None
    assert seconds_until_cut(slower, is_needed=True) == UNREAD_MS // 1000 + 1


def test_who_has_taken_all_is_not_late_for_the_next_answer() -> None:
    """Between answers the time does not run."""
    pace = AnswerPace(STALL_MS, BEGUN_MS)
    assert pace.disconnect_reason(WRITTEN, 0, BEGUN_MS + 10 * STALL_MS, is_needed=True) is None
    assert pace.disconnect_reason(WRITTEN + 10, 10, BEGUN_MS + 10 * STALL_MS + 1000, is_needed=True) is None
