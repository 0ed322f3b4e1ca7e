"""Typed topics by real gateways under kill -9, SIGSTOP and a store that dies, with schemas that evolve, and maintenance.

deltalake finds each record once, with its columns. ``make torture-typed`` is the long run.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.torture.tortured.typed_clients import schema_of
from tests.torture.tortured.typed_history import Outcome, Sent, TypedHistory, TypedTopic, contradictions
from tests.torture.tortured.typed_run import Plan, torture_typed

pytestmark = pytest.mark.timeout(600)

DATA = pa.struct([("number", pa.int64()), ("n0", pa.string())])
TOPICS = {"t": TypedTopic(), "m": TypedTopic(is_marking=True)}


def sent(number: int, *, topic: str = "t", outcome: Outcome = "acknowledged", unfit: bool = False) -> Sent:
    """A document, or something that no schema allows."""
    members = None if unfit else {"number": number}
    value = b"garbage-%d" % number if unfit else b'{"number": %d}' % number
    return Sent(number=number, topic=topic, kind="numbered", value=value, members=members, outcome=outcome)


def judged(*given: Sent, t: list[tuple[Sent, object, str | None]], m: list[tuple[Sent, object, str | None]]) -> int:
    """How many contradictions there are between what was sent and these rows."""
    history = TypedHistory()
    history.registered(1, schema_of(["n0"]))
    history.add(*given)
    tables = {
        topic: pa.table(
            {
                "value": pa.array([one.value for one, _, _ in rows], pa.binary()),
                "data": pa.array([data for _, data, _ in rows], DATA),
                "data_error": pa.array([error for _, _, error in rows], pa.string()),
            }
        )
        for topic, rows in (("t", t), ("m", m))
    }
    return len(contradictions(history, TOPICS, tables))


def test_the_judge_knows_what_is_right() -> None:
    """Records with their columns, a marked one where it may be, one in doubt that is not there, and a refused one."""
    fit, marked = sent(1), sent(2, topic="m", unfit=True)
    others = (sent(3, outcome="unknown"), sent(4, outcome="refused", unfit=True))
    assert judged(fit, marked, *others, t=[(fit, {"number": 1}, None)], m=[(marked, None, "no")]) == 0


def test_the_judge_finds_each_contradiction() -> None:
    """Missing, doubled, refused and there, without columns, with others, with a false mark, unmarked, where it may not be."""
    fit, unfit = sent(1), sent(2, topic="m", unfit=True)
    right = (fit, {"number": 1}, None)
    assert judged(fit, t=[], m=[]) == 1
    assert judged(fit, t=[right, right], m=[]) == 1
    assert judged(sent(1, outcome="refused"), t=[right], m=[]) == 1
    assert judged(fit, t=[(fit, None, None)], m=[]) == 1
    assert judged(fit, t=[(fit, {"number": 1, "n0": "x"}, None)], m=[]) == 1
    assert judged(fit, t=[(fit, None, "no")], m=[]) == 1
    assert judged(unfit, t=[], m=[(unfit, None, None)]) == 1
    assert judged(sent(2, unfit=True), t=[(sent(2, unfit=True), None, "no")], m=[]) == 1
    assert judged(t=[right], m=[]) == 1


def test_a_short_torture_of_typed_topics(tmp_path: Path) -> None:
    """Some faults; then every record is there once, as its schema has it."""
    outcome = torture_typed(Plan(seconds=12, seed=7, gateways=2, freeze_seconds=4), tmp_path)
    assert outcome.contradictions == []
    assert outcome.counts["schemas"] > 1
    assert outcome.counts["numbered: acknowledged"] > 5
    # Whether a topic marks or refuses an unfit record depends on when its settings were altered.
    unfit = [outcome.counts.get(f"numbered, unfit: {answer}", 0) for answer in ("refused", "acknowledged")]
    assert sum(unfit) > 1
    assert outcome.counts["transaction: acknowledged"] > 1
    assert outcome.counts["kafka: acknowledged"] > 5


def test_lost_marks_are_found(tmp_path: Path) -> None:
    """Gateways that lose the marks of unfit records do not pass."""
    plan = Plan(seconds=6, seed=8, gateways=2, maintenance=False, planted=True)
    assert any("is in events with None and None" in one for one in torture_typed(plan, tmp_path).contradictions)
