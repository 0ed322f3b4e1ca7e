"""Thread-safe decoding of JSON answers into classes named by the caller.

msgspec analyses a class when its first decoder is created, and other threads see the unfinished result. Two threads that do so
concurrently crash the process (SIGSEGV, msgspec 0.22). So one thread at a time creates a decoder here. Where the class is known
beforehand, the decoder is a constant of its module.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar

import msgspec

_T = TypeVar("_T")

_LEARNING: Final = threading.Lock()
_known: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def decode(data: bytes, kind: type[_T]) -> _T:
    """Return ``data`` as ``kind``, a class or a typing expression of classes. Raises one of ``DECODE_ERRORS``."""
    decoder = _known.get(kind)
    if decoder is None:
        with _LEARNING:
            decoder = _known.setdefault(kind, msgspec.json.Decoder(kind))
    value: _T = decoder.decode(data)
    return value
