"""Tables show what others wrote as it is: as text."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from tidelog.cli.terminal.tables import fitted, table


def test_cells_are_text() -> None:
    """No markup, no emoji, no control character, and no text that runs the other way."""
    shown = table("why", numbers=["count"])
    shown.add_row("[link=http://other]here[/link] :skull: \x1b]0;title\x07 \u202etxt a\nb", "1")
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=True, color_system=None).print(shown)
    said = out.getvalue().splitlines()[1].split("  ")[0]
    assert said == r"[link=http://other]here[/link] :skull: \x1b]0;title\x07 \u202etxt a\x0ab"


def test_a_narrow_terminal_cuts_nothing() -> None:
    """An id stays whole in its line, since people copy it; other text goes on in the next line."""
    one = "3f1c9a52-77de-4b0f-9d3a-0c5a8e9b1d42"
    shown = table("id", "status", "older files", numbers=["records"])
    shown.add_row(one, "rewritten", "until-2026-12-24T00:00:00+00:00", "7")
    assert (one in drawn(shown, 76), "\N{HORIZONTAL ELLIPSIS}" in drawn(shown, 76)) == (True, False)
    assert " = " not in drawn(shown, 76)


@pytest.mark.parametrize("width", [40, 60])
def test_a_terminal_that_is_too_narrow_shows_a_block_for_each_row(width: int) -> None:
    """No number and no id is folded, and every cell stands beside its heading."""
    shown = table("group", "state", numbers=["members", "lag", "behind", "in/s", "out/s", "caught up in"])
    shown.add_row("billing", "Stable", "2", "120,000", "14m2s", "300", "800", "4m")
    shown.add_row("audit", "Stable", "1", "0", "-", "300", "300", "0ms")
    blocks = drawn(shown, width).split("\n\n")
    assert len(blocks) == 2
    assert [line.split(" = ") for line in blocks[0].splitlines()][2:4] == [
        ["     members", "2"],
        ["         lag", "120,000"],
    ]
    assert drawn(shown, 80).splitlines()[1].split() == [
        "billing",
        "Stable",
        "2",
        "120,000",
        "14m2s",
        "300",
        "800",
        "4m",
    ]


def drawn(shown: Table, width: int) -> str:
    """As a terminal of so many columns shows it."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(fitted(shown, width))
    return out.getvalue()
