"""The rules for a store's keys.

The rules are the same in every store, so that a key tested on one is not refused by another. A key is a path that both a
directory and S3 can have, name for name, without escaping. A bad key is a mistake in the program, hence ``ValueError``.

A key that is also the directory of another key (``a`` and ``a/b``) is legal on S3 and impossible in a directory. The format has
no such keys, and stores don't check for them.
"""

from __future__ import annotations

import re
from typing import Final

from log_format.limits import KEY_BYTES_MAX, KEY_NAME_BYTES_MAX

TEMPORARY: Final = ".tmp"
"""First component of the local store's temporary files. Every store refuses it in keys."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_key(key: str) -> str:
    """Return the key. Raises ``ValueError`` for a key that no object can have."""
    _check_text(key)
    names = key.split("/")
    _check_names(key, names)
    if names[0] == TEMPORARY:
        raise ValueError(f"key {key!r}: the name {TEMPORARY!r} is reserved for objects in the making")
    return key


def is_key(text: str) -> bool:
    """Return whether an object can have this key."""
    try:
        check_key(text)
    except ValueError:
        return False
    return True


def check_prefix(prefix: str) -> str:
    """Return the prefix of a listing. It may end anywhere in a key except after ``/.`` or ``/..``, which MinIO refuses.

    Raises ``ValueError`` otherwise, and if no key can begin with the prefix.
    """
    _check_text(prefix)
    directory, _, rest = prefix.rpartition("/")
    _check_names(prefix, directory.split("/") if "/" in prefix else [])
    if rest:
        _check_names(prefix, [rest])
    return prefix


def check_directory(prefix: str) -> str:
    """Return the prefix. Raises ``ValueError`` unless it is empty or ends with a slash."""
    if prefix and not prefix.endswith("/"):
        raise ValueError(f"prefix {prefix!r} must be empty or end with '/'")
    return check_prefix(prefix)


def check_range(start: int, end: int) -> None:
    """Raise ``ValueError`` unless ``0 <= start < end``."""
    if not 0 <= start < end:
        raise ValueError(f"not a range: [{start}, {end})")


def _check_text(text: str) -> None:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"key {text!r} is not valid Unicode") from error
    if size_bytes > KEY_BYTES_MAX:
        raise ValueError(f"key {text[:40]!r}... has {size_bytes} bytes, the limit is {KEY_BYTES_MAX}")
    if _CONTROL.search(text):
        raise ValueError(f"key {text!r} has a control character")


def _check_names(key: str, names: list[str]) -> None:
    for name in names:
        if name in {"", ".", ".."}:
            raise ValueError(f"key {key!r} has the component {name!r}")
        if len(name.encode()) > KEY_NAME_BYTES_MAX:
            raise ValueError(f"key {key[:40]!r}... has a component above {KEY_NAME_BYTES_MAX} bytes")
