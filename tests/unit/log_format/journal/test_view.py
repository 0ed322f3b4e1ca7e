"""A topic at a journal as readers see it."""

from __future__ import annotations

from log_format.journal.view import OverlaidManifest
from log_format.manifest.manifest import Manifest

CHANGES = {"add", "add_many", "remove", "remove_all", "replace", "trim"}
"""What changes a manifest: an overlaid one is made anew instead."""


def test_every_question_to_a_manifest_is_answered() -> None:
    """An overlaid manifest has no columns of its own: a question that it inherits fails, for topics at a journal only."""
    asked = {name for name in vars(Manifest) if not name.startswith("_")} - CHANGES
    assert asked - vars(OverlaidManifest).keys() == set()
