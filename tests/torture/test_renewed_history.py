"""The judge of a topic that is made anew: histories made by hand, each with one thing wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.torture.tortured.history import Place, Write
from tests.torture.tortured.renewed_history import Committed, Handed, Life, Looked, Missing, RenewedHistory, Seen
from tests.torture.tortured.renewed_judge import Judge, Log, left_behind

OLD = Life(topic_id="old", born=(0, 1), died=(10, 11))
NEW = Life(topic_id="new", born=(10, 12))


def written(value: str, offset: int, started: float, **more: object) -> Write:
    """An acknowledged record of partition 0."""
    members: dict[str, object] = {"client": value[0], "kind": "idempotent request", "outcome": "acknowledged"}
    members |= {"places": [Place(topic="t", partition=0, base_offset=offset, values=[value])]} | more
    return Write(values={"t": {0: [value]}}, started=started, ended=started + 0.5, **members)  # type: ignore[arg-type]


WRITES = (written("a0", 0, 2), written("a1", 1, 3), written("a2", 0, 13), written("b0", 1, 14))
LOG: Log = {0: ["a2", "b0"]}


def seen(topic_id: str, first: int, values: tuple[str, ...], at: float, **more: object) -> Seen:
    """A reader that named no id got these."""
    members: dict[str, object] = {"reader": "r", "high_watermark": 2, "asked": (first, "")} | more
    return Seen(
        topic_id=topic_id,
        partition=0,
        offsets=list(range(first, first + len(values))),
        values=list(values),
        next_offset=first + len(values),
        started=at,
        ended=at + 0.5,
        **members,  # type: ignore[arg-type]
    )


READ = (seen("old", 0, ("a0", "a1"), 5), seen("new", 0, ("a2", "b0"), 15, asked=(2, "old")))
POLLED = tuple(replace(one, group="g", asked=None) for one in READ)
HANDED = (
    Handed(reader="s", records=[(0, 0, "a0"), (0, 1, "a1")], ended=6),
    Handed(reader="s", records=[(0, 0, "a2"), (0, 1, "b0")], ended=16),
)
COMMITTED = (
    Committed(group="c", topic_id="old", offset=7, outcome="yes", started=2, ended=3),
    Committed(group="c", topic_id="new", offset=8, outcome="yes", started=13, ended=14),
    Committed(group="c", topic_id="old", offset=9, outcome="yes", started=15, ended=16),
)
LOOKED = (Looked(group="c", offset=7, started=4, ended=5), Looked(group="c", offset=8, started=17, ended=18))


def judged(
    writes: tuple[Write, ...] = WRITES,
    seen: tuple[Seen, ...] = READ,
    handed: tuple[Handed, ...] = HANDED,
    log: Log = LOG,
    **more: object,
) -> list[str]:
    history = RenewedHistory(lives=[OLD, NEW], seen=list(seen), handed=list(handed), **more)  # type: ignore[arg-type]
    return Judge(history, writes, log).contradictions()


def test_what_may_happen_contradicts_nothing() -> None:
    """The new topic from its start; a request repeated across the re-creation; a gap without a topic; offsets by id."""
    assert judged() == []
    assert judged(seen=(*READ, *POLLED)) == []
    assert judged(seen=(seen("old", 0, ("a0",), 5), replace(READ[1], asked=(1, "old")))) == []
    crossing = written("c0", 2, 9, attempts=2)
    assert judged((*WRITES, replace(crossing, ended=15)), log={0: ["a2", "b0", "c0"]}) == []
    both = replace(
        WRITES[1], attempts=1, ended=15, places=[Place(topic="t", partition=0, base_offset=2, values=["a1"])]
    )
    twice = (WRITES[0], both, *WRITES[2:])
    assert judged(twice, (READ[1],), log={0: ["a2", "b0", "a1"]}) == []
    assert judged(missing=[Missing(client="r", started=9, ended=10.5)]) == []
    assert judged(committed=list(COMMITTED), looked=list(LOOKED)) == []
    assert judged(handed=(replace(HANDED[1], from_latest=True, records=[(0, 1, "b0")]),)) == []
    assert judged(handed=(replace(HANDED[0], group="g"), replace(HANDED[0], group="g", reader="z"))) == []
    assert judged(handed=(replace(HANDED[0], keeps=False, records=[(0, 1, "a1"), (0, 1, "b0")]),)) == []


BY_ID = written("k0", 2, 4, meant="old", kind="Kafka by id")
WRONG = {
    "an acknowledged record is not there": judged((*WRITES, written("c0", 2, 15))),
    "two values at one place": judged(seen=(READ[0], replace(READ[1], values=["a2", "a1"]))),
    "a record of the old topic is in the new one": judged(
        seen=(READ[0], seen("new", 0, ("a2", "b0", "a1"), 15)), log={0: ["a2", "b0", "a1"]}
    ),
    "written before the topic was there": judged((*WRITES, written("c0", 2, 3)), log={0: ["a2", "b0", "c0"]}, seen=()),
    "meant for the old topic": judged((*WRITES, replace(BY_ID, ended=15)), log={0: ["a2", "b0", "k0"]}),
    "a refused record is there": judged((*WRITES[:3], replace(WRITES[3], outcome="refused", places=[]))),
    "sent by nobody": judged(WRITES[:3]),
    "half a transaction": judged(
        (
            *WRITES,
            Write(
                client="t",
                kind="transaction",
                values={"t": {0: ["t0"], 1: ["t1"]}},
                outcome="unknown",
                started=13,
                ended=14,
                atomic=True,
            ),
        ),
        log={0: ["a2", "b0", "t0"], 1: []},
    ),
    "one producer's records out of order": judged(
        (*WRITES[:2], replace(WRITES[3], client="a"), replace(WRITES[2], started=15, ended=15.2)), handed=()
    ),
    "the new topic is read at the old offset": judged(seen=(READ[0], seen("new", 1, ("b0",), 15, asked=(2, "old")))),
    "the first record is skipped": judged(seen=(seen("old", 1, ("a1",), 5, asked=(0, "")), READ[1])),
    "a record comes twice": judged(seen=(READ[0], seen("old", 1, ("a1",), 6, asked=(1, "old")), READ[1])),
    "back to the old topic": judged(seen=(READ[1], seen("old", 0, ("a0",), 5, asked=(2, "new")))),
    "it was not there": judged(seen=(*READ, seen("old", 2, (), 15, reader="q"))),
    "nobody made it": judged(seen=(*READ, seen("third", 0, (), 15, reader="q"))),
    "an end before what was acknowledged": judged(
        seen=(READ[0], replace(READ[1], values=[], offsets=[], next_offset=0, high_watermark=1))
    ),
    "the SDK goes on at the old offset": judged(
        handed=(replace(HANDED[0], records=[(0, 0, "a0")]), replace(HANDED[1], records=[(0, 1, "b0")]))
    ),
    "the SDK skips": judged(handed=(replace(HANDED[1], records=[(0, 1, "b0")]),)),
    "the SDK begins again": judged(handed=(HANDED[1], HANDED[1])),
    "the SDK has another place": judged(handed=(replace(HANDED[1], records=[(0, 0, "b0")]),)),
    "the SDK has what nobody sent": judged(handed=(replace(HANDED[1], records=[(0, 0, "x")]),)),
    "a group skips in the new topic": judged(seen=(POLLED[0], replace(POLLED[1], offsets=[1], values=["b0"]))),
    "a group of the SDK skips in the new topic": judged(
        handed=(replace(HANDED[0], group="g"), replace(HANDED[1], group="g", records=[(0, 1, "b0")]))
    ),
    "there is no topic, and nobody deleted it": judged(missing=[Missing(client="r", started=5, ended=6)]),
    "an offset of the old topic counts in the new one": judged(
        committed=list(COMMITTED), looked=[replace(LOOKED[1], offset=9)]
    ),
    "an offset that nobody committed": judged(committed=list(COMMITTED), looked=[replace(LOOKED[1], offset=6)]),
    "an acknowledged offset is lost": judged(committed=list(COMMITTED), looked=[replace(LOOKED[1], offset=None)]),
    "a refused offset": judged(committed=[COMMITTED[0], replace(COMMITTED[1], outcome="refused")], looked=[LOOKED[1]]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_may_not_happen_is_told(name: str) -> None:
    """Each of these histories has a contradiction."""
    assert WRONG[name]


def test_who_stays_behind_is_told() -> None:
    """A reader, a group and a consumer of the SDK that did not come to the end, and one that never read."""
    history = RenewedHistory(lives=[OLD, NEW], seen=[*READ, *POLLED], handed=list(HANDED))
    assert left_behind(history, LOG, ("r", "g", "s")) == []
    assert len(left_behind(history, {0: ["a2", "b0", "c0"]}, ("r", "g", "s", "nobody"))) == 4
