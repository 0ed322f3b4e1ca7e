"""What ``make kafka-suites`` makes of outcomes and reasons: nothing that fails goes unseen."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kafka_clients.suites import kafkajs, reasons
from tests.kafka_clients.suites.__main__ import SUITES
from tests.kafka_clients.suites.go_modules import outcomes

NAMES = {suite.name for suite in SUITES}


def _lines(*events: tuple[str, str]) -> list[str]:
    return [json.dumps({"Action": action, "Test": test}) for action, test in events]


def test_a_test_of_go_without_an_end_failed() -> None:
    """A panic ends the others, too: none of them counts as passed, or as one that is not there."""
    told = _lines(("run", "TestA"), ("pass", "TestA"), ("run", "TestB"), ("output", "TestB"))
    assert outcomes([*told, "panic: no JSON"]) == {"TestA": "pass", "TestB": "fail"}


def test_a_test_of_go_with_parts_is_told_by_its_parts() -> None:
    """Unless it failed and none of them did."""
    blamed = _lines(("run", "TestA"), ("run", "TestA/x"), ("pass", "TestA/x"), ("fail", "TestA"))
    assert outcomes(blamed) == {"TestA": "fail", "TestA/x": "pass"}
    parts = _lines(("run", "TestA"), ("run", "TestA/x"), ("fail", "TestA/x"), ("run", "TestA/y"), ("pass", "TestA/y"))
    assert outcomes([*parts, *_lines(("fail", "TestA"))]) == {"TestA/x": "fail", "TestA/y": "pass"}


@pytest.mark.parametrize(
    "titles", [("Producer > Transactional producer", "when open", "ends it (v1)"), ("Admin", "lists")]
)
def test_a_test_of_kafkajs_is_chosen_by_its_name(titles: tuple[str, ...]) -> None:
    """Also where a title has the sign that stands between titles: jest joins these with a space."""
    chosen = re.compile(kafkajs.SUITE.choosing([" > ".join(titles)]))
    assert chosen.search(" ".join(titles))
    assert not chosen.search(" ".join(titles[:-1]))


@pytest.mark.parametrize(
    ("here", "beside", "is_wrong"),
    [
        ({"fails": "fail"}, {}, True),
        ({"fails": "pass"}, {}, False),
        ({"fails": "skip"}, {}, False),
        ({"known": "fail"}, {}, False),
        ({"known": "pass"}, {}, True),
        ({"there": "fail"}, {"there": "fail"}, False),
        ({"there": "fail"}, {"there": "pass"}, True),
    ],
)
def test_an_outcome_that_is_not_as_said_is_wrong(
    here: Mapping[str, str], beside: Mapping[str, str], is_wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure without a reason, a reason without a failure, and a reason that a broker refutes."""
    known = {"known": "is not served", "there": f"{reasons.SEEN_THERE} is no longer served"}
    monkeypatch.setattr(reasons, "allowed", lambda _: known)
    (row,) = reasons.judged("franz-go", dict(here), dict(beside), all_ran=False)
    assert row.is_wrong is is_wrong


def test_a_reason_whose_test_did_not_run_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all ran, so that no reason outlives its test; and what is left out makes no row."""
    monkeypatch.setattr(reasons, "allowed", lambda _: {"gone": "is not served"})
    monkeypatch.setattr(reasons, "left_out", lambda _: {"Of Docker > *": "stops a broker"})
    here = {"Of Docker > one": "fail", "other": "pass"}
    assert [(row.test, row.is_wrong) for row in reasons.judged("x", here, {}, all_ran=True)] == [
        ("other", False),
        ("gone", True),
    ]


def test_each_line_has_a_reason_and_belongs_to_a_suite() -> None:
    """No test may fail, or be left out, without words for it."""
    files = [path for kind in ("allowed", "left_out") for path in (Path(reasons.__file__).parent / kind).iterdir()]
    assert {path.stem for path in files} <= NAMES
    for path in files:
        for line in path.read_text().splitlines():
            name, bar, reason = line.partition(" | ")
            assert bar == " | ", line
            assert name.strip(), line
            assert len(reason.split()) > 2, line
