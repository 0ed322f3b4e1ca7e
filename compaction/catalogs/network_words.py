"""What is wrong with a connection, in words for people: libraries say it with the names and places of their objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_OBJECT: Final = re.compile(r"^<?\w[\w.]*\((?:[^()]|\([^()]*\))*\)>?: ")
"""``HTTPConnection(host='…', port=1): ``, before what urllib3 says."""
_NUMBER: Final = re.compile(r"\[Errno -?\d+\] ")
_CAUSES_MAX: Final = 8


def network_words(problem: BaseException) -> str:
    """Return what the operating system says, if it said something, else the problem's own words without its objects."""
    for cause in _causes(problem):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return _NUMBER.sub("", _OBJECT.sub("", str(getattr(problem, "reason", None) or problem)))


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield the problem and what it comes from: urllib3 calls that the reason, Thrift the inner error."""
    found: BaseException | None = problem
    for _ in range(_CAUSES_MAX):
        if found is None:
            return
        yield found
        named = [getattr(found, "reason", None), getattr(found, "inner", None)]
        found = next((one for one in named if isinstance(one, BaseException)), found.__cause__ or found.__context__)
