"""The page at ``/docs``: it renders ``/openapi.json`` itself, and loads nothing from the internet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DOCS_PAGE: Final = Path(__file__).with_name("docs_page.html").read_bytes()
DOCS_HEADERS: Final = {
    # The page builds text nodes only; this header also keeps it from loading or running anything else.
    "content-security-policy": (
        "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
}
