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
