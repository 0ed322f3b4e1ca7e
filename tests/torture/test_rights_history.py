"""The judge of a torture with rights that change finds each way in which gateways can go wrong, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.torture.tortured.renewed_history import Life
from tests.torture.tortured.rights_history import (
    STOPPED,
    UNAUTHORIZED,
    Asked,
    Change,
    Followed,
    Lateness,
    RightsHistory,
    Timeline,
    contradictions,
)

HERE, THERE = 0, 1


def timeline(*changes: tuple[bool, float], later: float = 0.0) -> Timeline:
    """Changed at gateway ``HERE``, in a tenth of a second each."""
    made = Timeline()
    made.changes = [Change(value=value, gateway=HERE, began=at, ended=at + 0.1, later=later) for value, at in changes]
    return made


HOLDS = timeline((True, 0))
LOST = timeline((True, 0), (False, 100))


def asked(at: float, status: int, *, gateway: int = THERE, **more: object) -> Asked:
    members: dict[str, object] = {"secret": HOLDS, "right": HOLDS} | more
    right = members.pop("right")
    members.setdefault("rights", () if right is None else (right,))
    return Asked(user="u", what="produce", gateway=gateway, began=at, ended=at + 0.5, status=status, **members)  # type: ignore[arg-type]


def found(
    *asked_or_followed: Asked | Followed,
    troubled: tuple[float, float] | None = None,
    frozen: tuple[float, float] | None = None,
    late: tuple[float, float] | None = None,
) -> list[str]:
    history = RightsHistory(
        asked=[one for one in asked_or_followed if isinstance(one, Asked)],
        followed=[one for one in asked_or_followed if isinstance(one, Followed)],
        troubled=[] if troubled is None else [troubled],
        frozen=[] if frozen is None else [frozen],
    )
    lateness = Lateness()
    if late is not None:
        lateness.note(*late)
    return contradictions(history, {("t", 0): ["there"]}, lateness, {"g": {7}})


@pytest.mark.parametrize("what", ["secret", "right"])
def test_what_was_taken_away_lets_in_for_five_seconds_elsewhere_and_not_at_all_here(what: str) -> None:
    """A gateway that goes by what was is found out; one that refuses what was taken away is not."""
    refused = 401 if what == "secret" else 403
    for at, gateway, may_be_let_in, may_be_refused in (
        (99.0, HERE, True, False),
        (99.8, HERE, True, True),
        (100.2, HERE, False, True),
        (100.2, THERE, True, True),
        (105.0, THERE, True, True),
        (105.2, THERE, False, True),
    ):
        taken: dict[str, object] = {what: LOST}
        assert bool(found(asked(at, 200, gateway=gateway, **taken))) != may_be_let_in, (at, gateway)
        assert bool(found(asked(at, refused, gateway=gateway, **taken))) != may_be_refused, (at, gateway)


def test_what_was_given_is_denied_for_five_seconds_elsewhere() -> None:
    """The same the other way round."""
    given = timeline((True, 100))
    assert not found(asked(90, 403, right=given), asked(102, 403, right=given), asked(102, 200, right=given))
    assert found(asked(105.2, 403, right=given))
    assert found(asked(100.2, 403, gateway=HERE, right=given))
    assert found(asked(99, 200, right=given))


def test_a_machine_that_was_late_excuses_what_came_about_then() -> None:
    """A second's wait gives gateways a second more, where it lies between the change and the answer, and nowhere else."""
    one = asked(105.2, 200, right=LOST)
    assert found(one)
    assert not found(one, late=(103.0, 1.0))
    assert found(one, late=(60.0, 1.0))
    assert found(one, late=(110.0, 1.0))
    assert found(asked(106.2, 200, right=LOST), late=(103.0, 1.0))


def test_a_change_that_is_overtaken_says_nothing_any_more() -> None:
    """Given, taken and given again: only what was before the last certain change can't be."""
    often = timeline((True, 0), (False, 100), (True, 102), (False, 104))
    assert not found(asked(105, 200, right=often), asked(105, 403, right=often))
    assert not found(asked(108, 200, right=often), asked(109.2, 403, right=often))
    assert found(asked(109.2, 200, right=often))


def test_an_overlap_is_kept_and_not_exceeded() -> None:
    """The last secret lives on as long as was said."""
    rotated = Timeline()
    rotated.changes = [
        Change(value=True, gateway=HERE, began=0, ended=0.1),
        Change(value=False, gateway=HERE, began=100, ended=100.1, later=8),
    ]
    assert found(asked(106, 401, secret=rotated))
    assert not found(asked(106, 200, secret=rotated), asked(108.2, 401, secret=rotated))
    assert found(asked(108.2, 200, secret=rotated))


def test_an_answer_that_waited_is_judged_at_its_end() -> None:
    """A long poll that began with the right, and answers long after it was taken away."""
    waited = replace(asked(99, 200, right=LOST, waits=True), ended=107.5)
    assert found(waited)
    assert not found(replace(waited, ended=105.5), replace(waited, status=403))


def test_a_stream_ends_with_its_right_and_not_before() -> None:
    """Within five seconds; with the reason only where there is one."""
    stream = Followed(user="u", gateway=THERE, secret=HOLDS, right=LOST, began=90, ended=104, reason=UNAUTHORIZED)
    assert not found(stream, replace(stream, right=HOLDS, reason=STOPPED))
    assert found(replace(stream, ended=107))
    assert found(replace(stream, ended=107, reason=STOPPED))
    assert found(replace(stream, right=HOLDS))
    broken = replace(stream, right=HOLDS, reason="")
    assert found(broken)
    assert not found(broken, troubled=(103, 110))


def test_other_answers_need_a_cause() -> None:
    """No 5xx and no lost connection but for a gateway that was killed."""
    for status in (0, 500, 503, 504):
        assert found(asked(50, status))
        assert not found(asked(50, status), troubled=(45, 50.2))
    assert not found(replace(asked(50, 504), ended=55.1)), "a machine that is busy makes clients and gateways give up"
    assert found(asked(50, 403, right=None))
    assert found(asked(50, 0, is_shut=True)), "the secret held"
    assert found(asked(102, 0, secret=LOST)), "it may not just hang"
    assert not found(asked(102, 0, secret=LOST, is_shut=True)), "a secret that has ended closes its connections"


def test_what_was_acknowledged_is_in_the_log_and_what_was_refused_is_not() -> None:
    """Changing rights loses no record, and a refusal leaves none."""
    assert not found(asked(50, 200, value="there", place=("t", 0, 0)))
    assert found(asked(50, 200, value="lost", place=("t", 0, 1)))
    assert found(asked(50, 200, value="other", place=("t", 0, 0)))
    assert found(asked(100.2, 403, right=LOST, value="there"))


def test_each_of_several_rights_counts() -> None:
    """One that is missing is enough for a refusal, and to be let in without it is found."""
    both: dict[str, Any] = {"rights": (HOLDS, LOST)}
    assert not found(asked(99, 200, **both), asked(105.2, 403, **both), asked(102, 200, **both))
    assert found(asked(105.2, 200, **both))
    assert found(asked(99, 403, **both))
    assert found(asked(105.2, 404, is_in=True, **both)), "that a member is unknown is for those that may read its group"
    assert not found(asked(99, 404, is_in=True, **both))
    assert found(asked(99, 404, **both))


def test_standing_still_excuses_what_was_judged_before_and_nothing_that_began_later() -> None:
    """An answer that a gateway had sent arrives when it goes on; a request that came meanwhile goes by what is."""
    waited = replace(asked(98, 200, right=LOST, waits=True), ended=119)
    assert found(waited)
    assert not found(waited, frozen=(99.5, 118.5))
    assert found(waited, frozen=(107, 118.5)), "it was judged long before that"
    stream = Followed(user="u", gateway=THERE, secret=HOLDS, right=LOST, began=90, ended=119, reason=UNAUTHORIZED)
    assert found(stream)
    assert not found(stream, frozen=(99.5, 118.5))
    late = replace(asked(106, 200, right=LOST), ended=119)
    assert found(late, frozen=(99.5, 118.5), troubled=(99.5, 130))
    given = replace(asked(106, 403, right=timeline((True, 100))), ended=119)
    assert found(given, frozen=(99.5, 118.5), troubled=(99.5, 130))


def test_an_offset_is_there_where_it_was_acknowledged_and_not_where_it_was_refused() -> None:
    """By the table's own log, whatever was committed after it."""
    assert not found(asked(50, 200, offset=("g", 7)), asked(106, 403, right=LOST, offset=("g", 8)))
    assert found(asked(50, 200, offset=("g", 8)))
    assert found(asked(50, 200, offset=("other", 7)))
    assert found(asked(106, 403, right=LOST, offset=("g", 7)))


def test_a_transaction_that_was_given_up_leaves_nothing() -> None:
    """Whatever its user was answered."""
    assert not found(asked(50, 200, value="else", undone=True))
    assert found(asked(50, 200, value="there", undone=True))
    assert found(replace(asked(50, 0, value="there", undone=True)), troubled=(49, 51))


LIVES = [Life(topic_id="old", born=(0, 1), died=(50, 51)), Life(topic_id="new", born=(50, 60))]


def found_while_made_anew(*some: Asked | Followed) -> list[str]:
    history = RightsHistory(
        asked=[one for one in some if isinstance(one, Asked)],
        followed=[one for one in some if isinstance(one, Followed)],
        renewed="t",
        lives=LIVES,
    )
    return contradictions(history, {("t", 0): ["there"]}, Lateness())


def test_a_topic_is_missing_only_while_it_is_made_anew_and_only_for_those_with_the_right() -> None:
    """What no rule allows is refused, whether the topic is there or not; rights are of the name, so they stay."""
    missing = asked(55, 404, code="UNKNOWN_TOPIC", topic="t")
    assert not found_while_made_anew(missing, replace(missing, status=503))
    assert found_while_made_anew(replace(missing, began=40, ended=41)), "nobody had deleted it"
    assert found_while_made_anew(replace(missing, topic="other")), "another topic"
    never = timeline((False, 0))
    assert found_while_made_anew(replace(missing, rights=(never,))), "who has no right learns nothing"
    assert not found_while_made_anew(replace(missing, rights=(never,), status=403))
    assert found_while_made_anew(replace(missing, status=403)), "the right outlives the topic"
    stream = Followed(
        user="u", gateway=THERE, secret=HOLDS, right=HOLDS, began=40, ended=55, reason="topic_deleted", topic="t"
    )
    assert not found_while_made_anew(stream)
    assert found_while_made_anew(replace(stream, ended=45))


def test_what_was_acknowledged_in_the_last_incarnation_is_there() -> None:
    """What was in an earlier one went with it."""
    lost = asked(40, 200, value="lost", place=("t", 0, 0), topic="t")
    assert not found_while_made_anew(lost, replace(lost, value="there", began=62, ended=63))
    assert found_while_made_anew(replace(lost, began=62, ended=63))
