"""Places of the user's input in a gateway's errors, which name places in one request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from log_format.errors import TidelogError
from tidelog.cli.sources.lines import Place

_IN_A_REQUEST: Final = re.compile(r"/records/(?P<index>[0-9]+)(?:/(?P<member>.+))?|line (?P<line>[0-9]+)")
"""A JSON pointer to a record, or a line of NDJSON, which counts from 1."""
_NOTHING: Final = "Nothing was stored. "
"""What a gateway says of its request; the command says how much of the whole input is stored."""


def name_places(error: TidelogError, place_of: Callable[[int], Place | None]) -> Place | None:
    """Replace places in the request by places of the input, in the errors and the message; return the first one.

    ``place_of``: place of the request's record or line at this index; None: there is none. Returns None if no error has a place.
    """
    first: Place | None = None
    found = error.fields.get("errors")
    for each in found if isinstance(found, list) else ():
        where = str(each.get("where"))
        match = _IN_A_REQUEST.fullmatch(where)
        place = (
            None
            if match is None
            else place_of(int(match["index"]) if match["line"] is None else int(match["line"]) - 1)
        )
        if match is None or place is None:
            continue
        each["where"] = str(place) if match["member"] is None else f"{place}, {match['member']}"
        if first is None:
            first = place
            error.detail = error.detail.removeprefix(_NOTHING).replace(f"{where}: ", f"{each['where']}: ", 1)
    return first
