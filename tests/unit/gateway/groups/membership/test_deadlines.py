"""Each group's sessions are looked at when the first of them may end, and once."""

from __future__ import annotations

from gateway.tasks.deadlines import Deadlines


def test_the_earliest_deadline_counts() -> None:
    """A later one changes nothing; a group that was due is expected no more."""
    deadlines = Deadlines()
    deadlines.expect("a", 100)
    deadlines.expect("a", 50)
    deadlines.expect("a", 70)
    deadlines.expect("b", 60)
    deadlines.expect("c", None)
    assert deadlines.due(49) == []
    assert deadlines.due(1_000) == ["a", "b"]
    assert deadlines.due(1_000) == []


def test_a_group_that_is_forgotten_is_not_due() -> None:
    """Unless it is expected again."""
    deadlines = Deadlines()
    deadlines.expect("a", 50)
    deadlines.forget("a")
    deadlines.forget("never there")
    assert deadlines.due(60) == []
    deadlines.expect("a", 80)
    assert deadlines.due(90) == ["a"]
