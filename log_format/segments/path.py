"""The path of a segment in an ``add``. Any program may write a commit with any path, so the path is checked before its use."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from log_format import limits
from log_format.errors import CorruptData

_UNFIT: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|[\x00-\x1f\x7f]")
"""Parts that no path of Tidelog has: a scheme, which would make it absolute, and control characters."""
_SHOWN_CHARACTERS: Final = 200


def segment_path(path: str) -> str:
    """Return an ``add.path`` without its URI encoding. Raises ``CorruptData`` unless it names an object below the table."""
    plain = unquote(path)
    names = plain.split("/")
    if (
        len(plain.encode()) <= limits.SEGMENT_PATH_BYTES_MAX
        and not _UNFIT.search(plain)
        and all(name not in {"", ".", ".."} and len(name.encode()) <= limits.KEY_NAME_BYTES_MAX for name in names)
    ):
        return plain
    shown = repr(plain[:_SHOWN_CHARACTERS])
    raise CorruptData(
        f"The log names {shown} as a segment, which is no path below the topic's table: this commit was not written by Tidelog.",
        segment=plain[:_SHOWN_CHARACTERS],
    )
