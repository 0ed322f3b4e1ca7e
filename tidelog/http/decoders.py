"""JSON of a gateway's answer as a class that the caller names, from any thread.

msgspec learns a class when the first decoder of it is made, and other threads see what it knows before that is whole. Two threads
that are the first ones at the same time end the process (SIGSEGV, msgspec 0.22). So one thread at a time makes a decoder here.
Where the class is known beforehand, the decoder is a constant of its module.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar

import msgspec

_T = TypeVar("_T")

_LEARNING: Final = threading.Lock()
_known: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def decode(data: bytes, kind: type[_T]) -> _T:
    """``data`` as ``kind``, a class or what typing makes of classes. Raises ``msgspec.DecodeError``."""
    decoder = _known.get(kind)
    if decoder is None:
        with _LEARNING:
            decoder = _known.setdefault(kind, msgspec.json.Decoder(kind))
    value: _T = decoder.decode(data)
    return value
