"""The documents that have a page for each part: the HTTP API and the format."""

from __future__ import annotations

import re
from typing import Literal

from tests.support.tracked_files import ROOT


def pages(document: Literal["http-api", "format"]) -> str:
    """Return the text of all pages of a document, in the order in which its index page lists them."""
    index = (ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8")
    names = dict.fromkeys(re.findall(rf"\]\(({document}/[\w-]+\.md)", index))
    assert names, "the index page links to no part"
    return index + "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in names)
