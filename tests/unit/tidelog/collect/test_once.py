"""Each line once: what is written down, what is sent again, and what is said when that can't be."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_bench import Crash, Workbench
from tidelog.collect.batch import TopicForm
from tidelog.collect.body import RecordForm
from tidelog.collect.position import Position, Tail
from tidelog.collect.sink import ProducerLost, RecordsTooLarge
from tidelog.collect.state import FileState, State, StateDamaged, decode_state, encode_state
from tidelog.collect.state_file import StateFile, StateFileError


def _die_after_store(bench: Workbench) -> None:
    def die() -> None:
        raise Crash

    bench.topic.after = die
    bench.run()
    bench.topic.after = lambda: None
    assert not bench.running


def test_a_request_that_was_stored_is_not_stored_again(bench: Workbench) -> None:
    """Killed between the append and its answer, the next process sends the same sequence and takes the duplicate for done."""
    bench.write("a.log", b"1\n2\n")
    _die_after_store(bench)
    bench.write("a.log", b"3\n")
    bench.run()
    assert bench.values() == [b"1", b"2", b"3"]
    assert bench.counts.duplicate_count == 1
    assert bench.journal.errors() == []


def test_each_process_has_a_producer_of_its_own(bench: Workbench) -> None:
    """Two machines with copies of one state file never take each other's requests for duplicates of theirs."""
    for number in range(3):
        bench.write("a.log", b"%d\n" % number)
        bench.run()
        bench.kill()
    assert [len(sequences) for sequences in bench.topic.producers.values()] == [1, 1, 1]


def test_bytes_that_are_gone_are_named_when_they_were_not_stored(bench: Workbench) -> None:
    """The rest of the request goes out under its sequence, which tells whether the lost part was stored."""

    def die() -> None:
        raise Crash

    path = bench.write("a.log", b"1\n2\n")
    bench.write("b.log", b"3\n")
    bench.topic.before = die
    bench.run()
    bench.topic.before = lambda: None
    path.unlink()
    bench.run()
    assert bench.values() == [b"3"]
    [(_, event, fields)] = [told for told in bench.journal.told if told[1] in bench.journal.errors()]
    assert event == "Bytes are lost: they were not stored, and can't be read again"
    assert fields["ranges"] == [f"{path}[0:4]"]
    assert bench.counts.lost_bytes == 4


def test_bytes_that_are_gone_are_not_missed_when_they_were_stored(bench: Workbench) -> None:
    """A duplicate says that all of the request is in the topic, so there is nothing to report."""
    path = bench.write("a.log", b"1\n2\n")
    bench.write("b.log", b"3\n")
    _die_after_store(bench)
    path.unlink()
    bench.run()
    assert sorted(bench.values()) == [b"1", b"2", b"3"]
    assert bench.journal.errors() == []


def test_bytes_that_are_all_gone_may_be_missing(bench: Workbench) -> None:
    """With nothing left to ask by, exactly what may be missing is said, and the agent goes on."""
    path = bench.write("a.log", b"1\n2\n")
    _die_after_store(bench)
    path.unlink()
    bench.write("b.log", b"3\n")
    bench.run()
    assert bench.values() == [b"1", b"2", b"3"]
    assert bench.journal.errors() == ["Bytes are in doubt: they were sent without an answer, and can't be read again"]


@pytest.mark.parametrize("doubt", [False, True])
def test_a_forgotten_producer(bench: Workbench, doubt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one is asked for; only a request that may have been stored is said to be twice in the topic, perhaps."""
    bench.write("a.log", b"1\n")
    bench.run()
    store = bench.topic.store

    def forget(*arguments: Any, in_doubt: bool) -> Any:
        monkeypatch.setattr(bench.topic, "store", store)
        raise ProducerLost("forgotten", in_doubt=doubt)

    monkeypatch.setattr(bench.topic, "store", forget)
    path = bench.write("a.log", b"2\n")
    bench.run()
    assert bench.values() == [b"1", b"2"]
    told = [
        fields["ranges"] for _, event, fields in bench.journal.told if event.startswith("Records may be duplicated")
    ]
    assert told == ([[f"{path}[2:4]"]] if doubt else [])


def test_a_topic_that_takes_smaller_records_than_before(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is made anew of the same bytes, in smaller parts."""
    bench.topic.form = TopicForm(partition_count=1, record_bytes_max=4096)
    store = bench.topic.store

    def refuse(body: bytes, *arguments: Any, in_doubt: bool) -> Any:
        if len(body) > 4096 and bench.topic.form.record_bytes_max == 4096:
            bench.topic.form = TopicForm(partition_count=1, record_bytes_max=2048)
            raise RecordsTooLarge("smaller")
        return store(body, *arguments, in_doubt=in_doubt)

    monkeypatch.setattr(bench.topic, "store", refuse)
    bench.write("a.log", b"x" * 3800 + b"\nshort\n")
    bench.run()
    assert b"".join(bench.values()) == b"x" * 3800 + b"short"
    assert max(map(len, bench.values())) < 2048
    assert [line.part for line in bench.topic.lines] == [1, 2, 3, None][-len(bench.values()) :]


def test_unfinished_lines_wait_their_time(bench: Workbench) -> None:
    """A last line without its end is sent after a while as part 1, and its rest as part 2 of the same line."""
    bench.write("a.log", b"1\nunfin")
    bench.run()
    bench.pass_time(3)
    bench.write("a.log", b"i")
    bench.run()
    bench.pass_time(3)
    bench.run()
    assert bench.values() == [b"1"]
    bench.pass_time(3)
    bench.run()
    bench.write("a.log", b"shed\n3\n")
    bench.run()
    assert [(line.value, line.line, line.part) for line in bench.topic.lines[1:]] == [
        (b"unfini", 2, 1),
        (b"shed", 2, 2),
        (b"3", 3, None),
    ]


def test_long_lines_come_in_parts(tmp_path: Path) -> None:
    """A line of many times the record size is sent in order, in parts that fit the topic with their headers."""
    bench = Workbench(tmp_path, record_bytes_max=2048)
    line = bytes(range(11, 256)) * 100
    bench.write("a.log", b"before\n" + line + b"\nbehind\n")
    bench.run()
    assert [bench.values()[0], bench.values()[-1]] == [b"before", b"behind"]
    parts = bench.topic.lines[1:-1]
    assert b"".join(part.value for part in parts) == line
    assert [part.part for part in parts] == list(range(1, len(parts) + 1))
    assert {part.line for part in parts} == {2}


@pytest.mark.parametrize("pattern", [r"user=(\w+)", r"user=(?P<key>\w+)", r"(?<=user=)\w+"])
def test_keys_by_pattern(tmp_path: Path, pattern: str) -> None:
    """The key decides the partition, which the gateway chooses; a line without one goes where its file's lines go."""
    bench = Workbench(tmp_path, key=pattern, headers=False)
    bench.write("a.log", b"user=ada in\nnobody\nuser=bob out\n")
    bench.run()
    assert [line.key for line in bench.topic.lines] == [b"ada", None, b"bob"]
    assert [line.partition is None for line in bench.topic.lines] == [True, False, True]


def test_records_of_several_lines_end_with_the_next_or_with_time(tmp_path: Path) -> None:
    """Stack traces stay with their line; the last one is whole after a while without more."""
    bench = Workbench(tmp_path, first_line="^[0-9]")
    bench.write("a.log", b"1 error\n  at x\n  at y\n2 fine\n")
    bench.run()
    assert bench.values() == [b"1 error\n  at x\n  at y"]
    bench.pass_time()
    bench.run()
    assert [(line.value, line.line, line.part) for line in bench.topic.lines[1:]] == [(b"2 fine", 4, None)]


def test_requests_are_bounded_and_fair(bench: Workbench) -> None:
    """No request is above its bound however short the lines are, and a large file does not hold up a small one."""
    bench.write("a.log", b"\n" * 300_000)
    bench.write("b.log", b"small\n")
    bench.run()
    assert len(bench.values()) == 300_001
    assert any(line.value == b"small" for request in bench.topic.requests[:2] for line in request)
    assert len(bench.topic.requests) > 2


STATE = State(
    topic="t",
    next_file_id=2,
    files=(
        FileState(
            id=1,
            device=3,
            inode=4,
            path="caf\udce9.log",
            last_path="x",
            compression="gzip",
            position=Position(offset=5, line=2, part=1),
            head=b"\xff\x00",
            tail=Tail.of(b"abc"),
        ),
    ),
)


def test_the_state_comes_back_as_it_was() -> None:
    """Also with names that are no UTF-8."""
    assert decode_state(encode_state(STATE)) == STATE


@pytest.mark.parametrize("position", range(0, len(encode_state(STATE)), 7))
def test_a_damaged_state_is_refused(position: int) -> None:
    """Any changed byte, and any missing end, is noticed."""
    data = bytearray(encode_state(STATE))
    with pytest.raises(StateDamaged):
        decode_state(bytes(data[:position]))
    data[position] ^= 1
    with pytest.raises(StateDamaged):
        decode_state(bytes(data))


def test_a_damaged_state_file_says_what_to_do(tmp_path: Path) -> None:
    """The message names the file, what is wrong, and both ways to go on without it."""
    path = tmp_path / "agent.state"
    path.write_bytes(encode_state(STATE)[:-3])
    with StateFile(path) as states, pytest.raises(StateFileError, match=re.escape(str(path))) as refused:
        states.load("t")
    assert all(part in str(refused.value) for part in ("damaged", "--from beginning", "--from end"))


def test_one_agent_for_each_state_file(tmp_path: Path) -> None:
    """A second is refused while the first has it; and a state of one topic is not used for another."""
    path = tmp_path / "agent.state"
    with StateFile(path) as states:
        states.save(State(topic="t"))
        with pytest.raises(StateFileError, match="another agent"):
            StateFile(path)
    with StateFile(path) as states, pytest.raises(StateFileError, match="topic t"):
        states.load("other")


def test_without_headers_a_record_costs_next_to_nothing() -> None:
    """The bound on requests counts what is sent."""
    assert RecordForm(headers=False).cost_bytes("x" * 1000) < 32 < 1000 < RecordForm().cost_bytes("x" * 1000)


def test_what_was_stored_is_not_read_again_from_a_copy_that_appears_later(bench: Workbench) -> None:
    """A file is truncated while the answer is still unknown, and its copy is found after that is settled."""
    path = bench.write("a.log", b"line 1\n")
    bench.write("b.log", b"other\n")
    _die_after_store(bench)
    copy = bench.directory / "copy"
    shutil.copy(path, copy)
    path.write_bytes(b"")
    bench.run()
    copy.rename(path.with_name("a.log.1"))
    bench.run()
    bench.run()
    assert sorted(bench.values()) == [b"line 1", b"other"]


def test_one_look_is_enough_for_all_that_is_there(bench: Workbench) -> None:
    """A file is not passed over because the one before it under its name has nothing new: '--once' looks once."""
    path = bench.write("a.log", b"1\n")
    bench.run()
    bench.kill()
    path.rename(path.with_name("a.log.1"))
    bench.write("a.log", b"2\n")
    bench.start()
    bench.send()
    assert bench.values() == [b"1", b"2"]


def test_records_that_stay_too_large_end_it(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut anew only for a topic of another form: one that refuses what fits its form is an operator's to mend."""
    refusals = []

    def refuse(*_: Any, in_doubt: bool) -> Any:
        refusals.append(in_doubt)
        assert len(refusals) < 5
        raise RecordsTooLarge("too large")

    monkeypatch.setattr(bench.topic, "store", refuse)
    bench.write("a.log", b"1\n")
    with pytest.raises(RecordsTooLarge):
        bench.run()
    assert refusals == [False]
