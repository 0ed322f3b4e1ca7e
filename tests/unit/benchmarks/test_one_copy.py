"""The picture of one copy: drawn from the figures of a run, and the same ones as its page has."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from benchmarks.typed.one_copy_picture import Figures, draw
from tests.support.tracked_files import ROOT

FIGURES = Figures(
    records=1_000,
    value_bytes=100.0,
    kafka_lag_ms=[2_000.0, 3_000.0],
    tidelog_lag_ms=[20.0, 30.0],
    log_ratio=0.5,
    copy_ratio=0.25,
    topic_ratio=0.4,
    batches_a_second=0.5,
    kafka_query_ms=500.0,
    tidelog_query_ms=600.0,
    measured="today <&>",
)


def texts(svg: str) -> list[str]:
    """The texts of a picture, in their order."""
    return ["".join(one.itertext()) for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("text")]


def test_bytes_and_dollars_are_of_the_measured_ratios() -> None:
    """Three replicas and the copy beside one table; each replica and the job read the log once; dearer bytes cost more."""
    assert FIGURES.stored == (1.75, 0.4)
    assert FIGURES.moved == (2.25, 0.9)
    assert FIGURES.kafka_dollars > 0
    assert FIGURES.tidelog_dollars() > FIGURES.tidelog_dollars(1_000, in_zones=True)


def test_the_picture_has_all_figures() -> None:
    """It is well formed whatever the run is called; a cell without a figure has no text."""
    shown = texts(draw(FIGURES))
    for name, theirs, ours in FIGURES.rows():
        assert shown.count(name) == 1 + bool(theirs)
        assert ours in shown
    assert any("today <&>" in text for text in shown)


def test_the_page_and_its_picture_say_the_same() -> None:
    """docs/one-copy.md has the figures of docs/one-copy.svg."""
    page = (ROOT / "docs" / "one-copy.md").read_text()
    table = page.split("| | Kafka and a job | Tidelog |\n|---|---|---|\n")[1].split("\n\n")[0]
    shown = texts((ROOT / "docs" / "one-copy.svg").read_text())
    rows = [re.split(r" *\| *", line.strip("| ").rstrip()) for line in table.splitlines()]
    assert len(rows) > 5
    for row in rows:
        assert {cell for cell in row if cell} <= set(shown), row
