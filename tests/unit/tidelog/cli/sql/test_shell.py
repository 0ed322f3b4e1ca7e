"""The shell of ``tidelog sql``: lines become statements, topics are read once, and no error ends it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.support.fake_gateway import FakeGateway
from tests.support.numbered_records import add
from tidelog.cli.sql import absent_commands, shell
from tidelog.cli.sql.answers import AnswerFormat
from tidelog.cli.sql.duckbox import Box, BoxColumn
from tidelog.cli.sql.shell import CONTINUED, PROMPT, Shell, is_complete
from tidelog.cli.sql.topic_database import TopicDatabase

Line = str | Callable[[], object]
"""A line that the user types, or what happens before the next one."""


def typed(topics: TopicDatabase, *lines: Line) -> list[str]:
    """Run a shell whose user types the lines, and return the prompts that it showed."""
    left, prompts = list(lines), list[str]()

    def read_line(prompt: str) -> str:
        prompts.append(prompt)
        while left:
            line = left.pop(0)
            if isinstance(line, str):
                return line
            line()
        raise EOFError

    Shell(topics, format_=AnswerFormat.CSV).run(read_line)
    return prompts


def fetched(gateway: FakeGateway) -> int:
    """Count the requests for records so far."""
    return sum(asked.path.endswith("/fetch") or asked.path.endswith("/records") for asked in gateway.asked)


def test_a_statement_has_several_lines(topics: TopicDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    """The prompt says that it goes on; a semicolon in quotes or in a comment ends nothing."""
    prompts = typed(topics, "select ';' as a, -- ;", "count(*) as n", "from orders;", "select 2 as b; select 3 as c;")
    assert prompts == [PROMPT, CONTINUED, CONTINUED, PROMPT, PROMPT]
    assert capsys.readouterr().out == "a,n\n;,6\nb\n2\nc\n3\n"


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("select 1;", True),
        ("select 1", False),
        ("select ';", False),
        ('select ";', False),
        ("select 1 -- ;", False),
        ("select 1; -- the end", True),
        ("select 'ä'; ", True),
        ("/* a;", False),
        ("-- nothing", True),
        ("select $$ ; ", False),
    ],
)
def test_the_end_of_a_statement(text: str, complete: bool) -> None:
    """As DuckDB reads the text."""
    assert is_complete(text) == complete


def test_later_statements_read_only_what_came_since(
    topics: TopicDatabase, gateway: FakeGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each record is in the table once; where nothing came, no record is asked for."""
    count = 'select count(*) as n, count(distinct (partition, "offset")) as d from orders;'
    asked: list[int] = []
    typed(
        topics,
        count,
        lambda: asked.append(fetched(gateway)),
        count,
        lambda: asked.append(fetched(gateway)),
        lambda: add(gateway, "orders", 2),
        count,
    )
    assert capsys.readouterr().out == "n,d\n6,6\nn,d\n6,6\nn,d\n10,10\n"
    assert asked[0] == asked[1] > 0


def test_a_topic_that_was_made_anew_is_read_anew(
    topics: TopicDatabase, gateway: FakeGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name is that of another topic then; ``.refresh`` reads the same topic again."""

    def recreate() -> None:
        gateway.create("orders", 1)
        add(gateway, "orders", 1)

    sums = "select count(*) as n from orders;"
    typed(topics, sums, recreate, sums, ".refresh orders", sums, ".refresh", sums)
    assert capsys.readouterr().out == "n\n6\nn\n1\nn\n1\nn\n1\n"


def test_what_the_user_creates_is_no_topic(topics: TopicDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables and views of one statement are there for the next, and in the list of tables."""
    typed(
        topics,
        "create table small as select value from orders where value = '1';",
        "select count(*) as n from small;",
        "create view v as select * from orders; select count(*) as n from v;",
        "insert into small select value from orders; select count(*) as n from small;",
        ".mode json",
        "show tables;",
    )
    assert capsys.readouterr().out.splitlines() == [
        *("Count", "2", "n", "2", "Count", "n", "6", "Count", "6", "n", "8"),
        '{"name":"orders","partitions":2}',
        '{"name":"small","partitions":null}',
        '{"name":"v","partitions":null}',
    ]


def test_columns_are_shown_without_reading_records(
    topics: TopicDatabase, gateway: FakeGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """By ``describe`` and by ``.schema``; a statement afterwards reads them."""
    typed(topics, ".schema orders", "describe orders;")
    assert fetched(gateway) == 0
    assert capsys.readouterr().out.count("value_bytes,BLOB") == 2
    typed(topics, "select count(*) as n from orders;")
    assert capsys.readouterr().out == "n\n6\n"


def test_no_error_ends_the_shell(
    topics: TopicDatabase, gateway: FakeGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is said, and the next statement runs."""
    gateway.create("shop.eu.sales")
    typed(
        topics,
        "selec;",
        "from nope;",
        ".nothing",
        ".mode xml",
        ".timer maybe",
        ".read /nowhere/x.sql",
        "from orders order by offset;",
        "from my-topic;",
        "from shop.eu.sales;",
        "select 7 as seven;",
    )
    said = capsys.readouterr()
    assert said.out == "seven\n7\n"
    for words in (
        "syntax error",
        "'nope' does not exist",
        ".mode is one of table, duckbox, line, csv, markdown, json",
        ".timer is on or off",
        "\n/nowhere/x.sql: No such file or directory\n",
        'the column is "offset", in double quotes',
        'A name with a dash stands in double quotes: from "my-topic".',
        'There is no topic sales. A name with dots stands in double quotes: "shop.eu.sales".',
    ):
        assert words in said.err


def test_answers_go_into_files(topics: TopicDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, or the next one only, in the mode of each; a file that can't be opened changes nothing."""
    all_, one = tmp_path / "all of them.csv", tmp_path / "one.json"
    typed(
        topics,
        f'.output "{all_}"',
        "select 1 as a; select 2 as a;",
        ".mode json",
        f".once {one}",
        "select 3 as a;",
        "select 4 as a;",
        ".output",
        "select 5 as a;",
        ".once",
        f".once {tmp_path}/no/such/file",
        "select 6 as a;",
    )
    said = capsys.readouterr()
    assert said.out == '{"a":5}\n{"a":6}\n'
    assert all_.read_text() == 'a\n1\na\n2\n{"a":4}\n'
    assert one.read_text() == '{"a":3}\n'
    assert ".once takes the name of a file." in said.err
    assert "No such file or directory" in said.err


def test_a_script_has_commands(topics: TopicDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the shell has them, also in files that it reads; a dot within a statement is none, and the last needs no semicolon."""
    part = tmp_path / "part.sql"
    part.write_text(".mode json\nselect 2 as two\n")
    Shell(topics, format_=AnswerFormat.CSV).run_script(
        f"-- a comment\n.tables\n\nselect '\n.mode line' as text,\n1\n*.5 as half;\n.read {part}\nselect 3 as three\n"
    )
    said = capsys.readouterr()
    assert said.out == 'name,partitions\norders,2\ntext,half\n"\n.mode line",0.5\n{"two":2}\n{"three":3}\n'
    assert said.err == "", "no timing: that is for people"
    Shell(topics).run_script("/* one\ntwo */\n.quit\nselect 1 as never;")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("wrong", [".nothing", ".mode xml", "selec;", ".read itself.sql", ".maxrows few", ".maxrows 0"])
def test_a_script_ends_at_its_first_error(
    topics: TopicDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """What comes after it does not run; a file that reads itself is one."""
    monkeypatch.chdir(tmp_path)
    Path("itself.sql").write_text(".read itself.sql\n")
    out = tmp_path / "out.csv"
    with pytest.raises(ValueError):
        Shell(topics, format_=AnswerFormat.CSV).run_script(f".output {out}\nselect 1 as a;\n{wrong}\nselect 2 as a;")
    assert out.read_text() == "a\n1\n"


def test_a_long_statement_is_not_read_anew_with_each_line(
    topics: TopicDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a script of one statement would take time by the square of its length."""
    asked: list[str] = []

    def noted(text: str) -> bool:
        asked.append(text)
        return is_complete(text)

    monkeypatch.setattr(shell, "is_complete", noted)
    values = ",\n".join(f"({number})" for number in range(2_000))
    Shell(topics, format_=AnswerFormat.CSV).run_script(f"create table numbers as from (values\n{values});")
    assert len(asked) < 5


def test_as_duckdb_draws_it(topics: TopicDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    """Names and types above the rows; of a long answer the first and the last rows, as many as the user asks for."""
    typed(topics, ".mode duckbox", ".maxrows 3", "select range as n, 'x' || range as text from range(7);")
    assert capsys.readouterr().out.splitlines() == [
        "┌───────┬─────────┐",
        "│   n   │  text   │",
        "│ int64 │ varchar │",
        "├───────┼─────────┤",
        "│     0 │ x0      │",
        "│     1 │ x1      │",
        *["│   ·   │    ·    │"] * 3,
        "│     6 │ x6      │",
        "└───────┴─────────┘",
        "7 rows (3 shown)",
    ]
    typed(topics, ".mode duckbox", "select null as a, 1.5 as b from range(2);")
    assert "│ NULL │          1.5 │" in capsys.readouterr().out
    typed(topics, ".mode table", ".maxrows 2", "from range(5);")
    said = capsys.readouterr()
    assert (said.out.split(), "There are more than 2 rows" in said.err) == (["range", "0", "1"], True)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_box_fits_into_the_terminal(width: int) -> None:
    """Text is cut first, then columns in the middle are left out, and that is said; every line is as long as the others."""
    columns = [BoxColumn(name=f"name{number}", type="VARCHAR", is_number=False) for number in range(5)]
    box = Box(columns)
    box.add(["a" * 30, "ü" * 5, "字" * 20, "d", "e"])
    *lines, last = box.lines(width)
    assert {cell_len(line) for line in lines} == {cell_len(lines[0])}
    assert cell_len(lines[0]) <= width
    assert ("columns" in last) is (width < 80)
    assert max(map(cell_len, box.lines(None))) > 80, "elsewhere nothing is cut"


def test_ctrl_c_ends_a_statement_only(topics: TopicDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    """A scan that never leaves its first task is ended, each time; a half-typed statement is dropped."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    def interrupt_soon() -> None:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    try:
        scan: list[Line] = [interrupt_soon, "select count(*) from range(10000000000000);"]
        typed(topics, *scan, *scan, *scan, "select nothing", interrupt, "select 1 as one;")
    finally:
        signal.signal(signal.SIGINT, previous)
    said = capsys.readouterr()
    assert said.out == "one\n1\n"
    assert said.err.count("Interrupted.") == 3


def test_a_read_that_breaks_off_is_made_anew(
    topics: TopicDatabase, gateway: FakeGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """What came before the failure is not in the table twice."""
    broken = 'select count(*) as n from orders where "offset" = 0;'
    real = topics._insert
    times = iter([True, False, False, False])

    def insert(topic: str, table: Any) -> None:
        real(topic, table)
        if next(times, False):
            raise KeyboardInterrupt

    topics._insert = insert  # type: ignore[method-assign]
    typed(topics, broken, broken)
    assert capsys.readouterr().out == "n\n2\n"


def test_what_is_left_out_says_what_to_do_instead(topics: TopicDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    """A command of DuckDB's shell, a slip of the pen, one without its argument: each is one sentence."""
    typed(topics, ".import x.csv t", ".tabels", ".nothing", ".schema", ".read", ".edit")
    said = capsys.readouterr().err
    for words in (
        "There is no command .import. create table NAME as from 'FILE' reads CSV, JSON or Parquet.",
        "There is no command .tabels. Did you mean .tables?",
        "There is no command .nothing. .help lists them.",
        ".schema takes the name of a topic or table",
        ".read takes the name of a file.",
        ".edit needs a terminal.",
    ):
        assert words in said


def test_no_absent_command_is_one_that_there_is(topics: TopicDatabase) -> None:
    """Advice about a command of the shell would never be seen."""
    for names, _ in absent_commands._INSTEAD:
        assert not {f".{name}" for name in names} & Shell(topics)._commands.keys()


def test_tables_are_listed_by_a_pattern(
    topics: TopicDatabase, gateway: FakeGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """As DuckDB's shell does: % and _, in any case; topics and what was created here."""
    gateway.create("shop.sales")
    typed(
        topics,
        "create table Shops as select 1 as a;",
        ".output /dev/null",
        ".output",
        ".tables shop%",
        ".tables '%RD%'",
    )
    assert capsys.readouterr().out.splitlines()[-5:] == [
        *("name,partitions", "Shops,", "shop.sales,1"),
        *("name,partitions", "orders,2"),
    ]


def test_settings_are_shown(topics: TopicDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``.show``, ``.mode`` alone, ``.help`` about a text; ``.print`` writes where answers go."""
    file = tmp_path / "out"
    typed(topics, ".mode", f".output {file}", ".print 'two  words'", ".maxrows 7", ".show", ".output", ".help maxrows")
    said = capsys.readouterr()
    assert file.read_text() == "two  words\n"
    assert "Answers are written as csv." in said.err
    assert f"   mode: csv\nmaxrows: 7\n output: {file}\n  timer: on\n" in said.err
    assert said.err.endswith("  .maxrows N              rows that table (1,000) and duckbox (40) show\n\n")


def test_a_statement_is_edited_by_the_users_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The editor gets the text in a file; if it fails, nothing is run."""
    monkeypatch.setenv("VISUAL", "sed -i s/1/2/")
    assert shell.edited("select 1;") == "select 2;\n"
    monkeypatch.setenv("VISUAL", "false")
    with pytest.raises(ValueError, match="ended with code 1: nothing was run"):
        shell.edited("select 1;")


def test_entries_of_the_history_end_with_their_statement(topics: TopicDatabase) -> None:
    """One for each statement or command, with all its lines; what is dropped by Ctrl-C ends, too, with nothing."""
    lines: Iterator[str | type[BaseException]] = iter(
        ["select 1", ";", ".timer off", "select", KeyboardInterrupt, "select 2;", EOFError]
    )
    ended: list[str] = []

    def read_line(_prompt: str) -> str:
        line = next(lines)
        if isinstance(line, str):
            return line
        raise line

    Shell(topics, format_=AnswerFormat.CSV).run(read_line, ended.append)
    assert ended == ["select 1\n;", ".timer off", "", "select 2;"]
