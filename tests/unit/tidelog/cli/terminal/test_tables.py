"""Tables show what others wrote as it is: as text."""

from __future__ import annotations

import io

from rich.console import Console

from tidelog.cli.terminal.tables import table


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
    out = io.StringIO()
    Console(file=out, width=60, color_system=None).print(shown)
    assert one in out.getvalue()
    assert "\N{HORIZONTAL ELLIPSIS}" not in out.getvalue()
