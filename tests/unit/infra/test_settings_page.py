"""docs/settings.md is what its program makes of the code: no setting is missing, and none is described twice."""

from __future__ import annotations

import runpy
from pathlib import Path

from gateway.settings.settings import Settings
from log_format.topic.config import SETTINGS

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_of_settings_is_as_the_code_has_them() -> None:
    """Run scripts/settings_page.py after a change of a setting."""
    made = runpy.run_path(str(ROOT / "scripts" / "settings_page.py"))["page"]()
    assert (ROOT / "docs" / "settings.md").read_text() == made
    for name in SETTINGS:
        assert made.count(f"\n| `{name}` |") == 1
    for name in Settings.model_fields:
        assert made.count(f"| `TIDELOG_{name.upper()}` |") == 1
