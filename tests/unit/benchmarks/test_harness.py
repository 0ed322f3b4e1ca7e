"""What all benchmarks share: percentiles, turns of two sources, metrics of servers, tables, and the names that documents cite."""

from __future__ import annotations

import importlib
import math
import operator
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from benchmarks.__main__ import BENCHMARKS, PROGRAMS, USUAL, main
from benchmarks.harness.client import ClientFailed, told
from benchmarks.harness.cpu import best_cpu_us, repeated
from benchmarks.harness.metrics import Metrics
from benchmarks.harness.pairs import BEFORE, THIS, Spread, in_turns, ratio, sources
from benchmarks.harness.percentiles import percentile, percentile_text
from benchmarks.harness.report import END, START, Table, with_results
from benchmarks.harness.scenario import Standing
from tests.support.tracked_files import ROOT, tracked_files

CITED = re.compile(r"(?:python -m\s+benchmarks[\s.]+|`benchmarks\s+)([a-z0-9][^`\"|&\n]*)")
NOT_READ = {"CHANGELOG.md", "tests/unit/benchmarks/test_harness.py"}
RUN = "of one commit"


def test_a_percentile_is_a_value_that_was_measured() -> None:
    """The nearest rank: the second-worst of 150, the worst of 99; of none there is none."""
    assert percentile([float(number) for number in range(150)], 0.99) == 148
    assert percentile([float(number) for number in range(99)], 0.99) == 98
    values = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    assert [percentile(values, fraction) for fraction in (0, 0.2, 0.5, 0.99, 1)] == [1, 1, 3, 5, 5]
    assert percentile(np.arange(1.0, 1_001.0), 0.99) == 990
    assert math.isnan(percentile([], 0.5))
    assert percentile_text([], 0.5) == ""


def test_each_round_begins_with_another_source() -> None:
    """What one source leaves behind does not always meet the same other one; the round that warms up is not counted."""
    calls: list[str] = []

    def measure(name: str) -> int:
        calls.append(name)
        return len(calls)

    found = in_turns({"a": lambda: measure("a"), "b": lambda: measure("b")}, 2, warms_up=True)
    assert "".join(calls) == "ba" + "ab" + "ba"
    assert found == {"a": [3, 6], "b": [4, 5]}


def test_a_pair_is_judged_round_by_round() -> None:
    """A round that other work slowed for both sources changes no ratio."""
    assert ratio([1.0, 20.0, 2.0], [2.0, 40.0, 4.0]) == 0.5
    assert Spread([3.0, 1.0, 2.0]).text(0) == "2 (1 to 3)"
    assert list(sources(None)) == [THIS]
    assert list(sources(ROOT)) == [BEFORE, THIS]


def test_metrics_are_summed_by_label() -> None:
    """Samples without a label, with others, and of metrics whose names begin alike are told apart."""
    told = Metrics(
        "# HELP a_total text\n"
        'a_total{kind="GET",of="segment"} 3.0\n'
        'a_total{kind="PUT",of="segment"} 2e3\n'
        "a_total_more 7\n"
        "b_sum 0.5\n"
    )
    assert told.total("a_total") == 2_003
    assert told.total("a_total", kind="GET") == 3
    assert told.total("b_sum") == 0.5
    assert told.total("missing") == 0
    assert told.counts("a_total", "of") == Counter({("segment",): 2_003})


def test_results_are_replaced_by_title() -> None:
    """A table of the same title is replaced where it stands, with its command and its run; the others stay as they are."""
    document = f"head\n{START}\n### One\n\nold\n\n### Two\n\nkept\n{END}\ntail\n"
    table = Table("One", ["figure"])
    table.add(1)
    written = with_results(document, [("One", table.markdown("python -m benchmarks one", RUN))])
    assert "old" not in written
    assert written.index("`python -m benchmarks one`") < written.index("| 1 |") < written.index(RUN)
    assert written.index(RUN) < written.index("### Two\n\nkept\n")
    assert written.startswith(f"head\n{START}\n")
    assert written.endswith(f"{END}\ntail\n")
    assert with_results(written, [("One", table.markdown("python -m benchmarks one", RUN))]) == written


def test_a_standing_process_answers_each_order() -> None:
    """Its start is no part of what is measured; where it fails, there is no figure."""
    standing = Standing(operator.add, 1)
    standing.begin(2)
    assert standing.result() == 3
    standing.begin(4)
    assert standing.result() == 5
    standing.begin("no number")
    with pytest.raises(EOFError):
        standing.result()


def test_only_the_work_of_a_client_is_counted() -> None:
    """Its preparations come before the signal, and the block around its work begins then."""
    program = (
        "import sys; given = sys.stdin.readline(); print('ready', flush=True)\n"
        "if sys.stdin.readline() == 'go\\n': print('{\"seconds\": 7}')"
    )
    entered: list[str] = []

    @contextmanager
    def counting() -> Iterator[None]:
        entered.append("begins")
        yield
        entered.append("ends")

    assert told([sys.executable, "-c", program], given="values\n", counting=counting()) == {"seconds": 7}
    assert entered == ["begins", "ends"]


def test_a_client_that_fails_has_no_figures() -> None:
    """What it complained of is told."""
    with pytest.raises(ClientFailed, match="no broker"):
        told([sys.executable, "-c", "raise SystemExit('no broker')"])


def test_the_least_disturbed_round_counts() -> None:
    """CPU of one call: a round that something else made longer decides nothing."""
    rounds = iter([50_000, 0, 50_000])
    found = best_cpu_us(lambda calls: sum(range(next(rounds) * calls)), calls=10, rounds=3)
    assert 0 < found < best_cpu_us(repeated(lambda: sum(range(50_000))), calls=10, rounds=3)


@pytest.mark.parametrize("module", sorted({module for modules in BENCHMARKS.values() for module in modules}))
def test_each_benchmark_measures(module: str) -> None:
    """A name leads to a module with ``measure``: they are imported only when they are asked for."""
    assert callable(importlib.import_module(f"benchmarks.{module}").measure)


@pytest.mark.parametrize("name", ["topics", "pace", "collect-kills", "one-copy", "cluster"])
def test_programs_explain_themselves(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark with options of its own says so."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"python -m benchmarks {name}" in capsys.readouterr().out


def test_all_names_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` names every benchmark, and those that run without a name are known."""
    with pytest.raises(SystemExit):
        main(["--help"])
    told = "".join(capsys.readouterr().out.split())  # the help's lines may be broken at a hyphen
    assert [name for name in (*BENCHMARKS, *PROGRAMS) if name not in told] == []
    assert set(USUAL) <= set(BENCHMARKS)


def test_cited_benchmarks_exist() -> None:
    """Each ``python -m benchmarks NAME`` of a document or a docstring can be run: decisions say with it what they measured."""
    cited = [
        (name, found[1])
        for name in tracked_files()
        if name.endswith((".md", ".py", ".template", ".sh")) and name not in NOT_READ
        for found in CITED.finditer((ROOT / name).read_text())
    ]
    assert len(cited) > 40
    wrong = [(name, words) for name, words in cited if not _is_known(words)]
    assert not wrong, wrong


def _is_known(words: str) -> bool:
    names = re.split(r"\s", words.strip())
    if names[0].rstrip(",.:)") in PROGRAMS:
        return True
    asked = []
    for word in names:
        if not re.fullmatch(r"[a-z][a-z-]+[,.:)]?", word):
            break
        asked.append(word.rstrip(",.:)"))
        if word != asked[-1]:
            break
    return bool(asked) and set(asked) <= set(BENCHMARKS)
