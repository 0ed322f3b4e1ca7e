"""Detection of new files that are copies of known ones: by a name that rotation can give, and by equal bytes.

1. A file whose name rotation would not give is no copy, whatever its bytes: many services write the same lines.
2. Bytes are compared as far as both files have them. If they can't be compared, the file is no copy: duplicate lines in the
   topic are better than missing ones.

Compressing and copying give a new inode. Renaming does not: see ``tidelog.collect.file_follower``.
"""

from __future__ import annotations

import os
import re
from typing import Final

from tidelog.collect import limits
from tidelog.collect.content import Content
from tidelog.collect.discovery import SeenFile
from tidelog.collect.followed_file import FollowedFile
from tidelog.unpacking import compression_of

_MARK: Final = re.compile(r"[._-]+\d+(?:[-._:+T]+\d+)*Z?")
"""Pattern of a separator and a number or date, perhaps with more: ``.1``, ``-20250131``, ``-2025-01-31T10-00-00.000``,
``.2025-01-31.2``."""
_NUMBERED: Final = re.compile(rf"(.+?)(?:{_MARK.pattern})")


def may_be_copy(path: str, original: FollowedFile) -> bool:
    """Return whether rotation may have made ``path`` from ``original``, by its name.

    For ``access.log`` these are ``access.log.1``, ``access.log-20250131.gz``, ``access-1.log``, ``access.1.log`` and
    ``access.log.gz``, in its directory or below it. ``access.log.2.gz`` may also be made from ``access.log.1``, once that is
    gone: it was renamed, then compressed.
    """
    names = {original.state.path, original.state.last_path}
    if path in names:
        return False
    # The copy may have been found first, before its original was known to be truncated.
    return any(
        _is_rotated_name(path, name, original) or (original.present and _is_made_of(name, path)) for name in names
    )


def is_copy(original: FollowedFile, seen: SeenFile, content: Content, head: bytes) -> bool:
    """Return whether ``content`` contains what was read of ``original``, or is the beginning of that."""
    length = min(len(original.state.head), len(head))
    if length == 0 or original.state.head[:length] != head[:length] or not may_be_copy(seen.path, original):
        return False
    before = content.read(original.read.offset - original.tail.length, original.tail.length)
    if len(before) == original.tail.length:
        return original.tail.matches(before) and _has_same_tail(original, content)
    # It ends before the read position: copied before the last lines came, or still being written.
    return _is_beginning(original, content, len(head))


def is_truncated(original: FollowedFile) -> bool:
    """Return whether an open, uncompressed file has other bytes than were read of it, as far as it can be read."""
    if original.content is None or original.state.compression is not None:
        return False
    try:
        return not _intact(original, original.content)
    except OSError:
        return False


def _is_rotated_name(path: str, name: str, original: FollowedFile) -> bool:
    if _is_made_of(path, name):
        return True
    # Files with other numbers were renamed, and keep their inode until they are compressed.
    if original.present or original.state.compression is not None or compression_of(path) is None:
        return False
    was, now = _NUMBERED.fullmatch(_plain(name)), _NUMBERED.fullmatch(_plain(path))
    return was is not None and now is not None and was[1] == now[1]


def _is_made_of(path: str, name: str) -> bool:
    """Return whether ``path`` is a name that rotation gives to a file called ``name``."""
    directory, _, new = _plain(path).rpartition("/")
    old_directory, _, old = _plain(name).rpartition("/")
    stem, suffix = os.path.splitext(old)  # noqa: PTH122 - for each pair of files
    if not new.startswith(stem) or not f"{directory}/".startswith(f"{old_directory}/"):
        return False
    if new == old:
        return compression_of(path) is not None or compression_of(name) is not None
    middle = new[len(stem) : len(new) - len(suffix)] if new.endswith(suffix) else ""
    return bool(_MARK.fullmatch(new.removeprefix(old)) or _MARK.fullmatch(middle))


def _plain(path: str) -> str:
    return path if compression_of(path) is None else path[: path.rindex(".")]


def _has_same_tail(original: FollowedFile, content: Content) -> bool:
    """Return whether the bytes after the position are equal and not longer: a copy has nothing that the original lacks."""
    theirs = original.content
    if theirs is None or not _intact(original, theirs):
        return True
    return _begins_with(theirs, content, original.read.offset)


def _is_beginning(original: FollowedFile, content: Content, head_bytes: int) -> bool:
    """Return whether a file that ends before the position is the beginning of what was read."""
    if head_bytes < limits.HEAD_BYTES:
        return True  # The heads are equal, and the file has no more.
    if original.content is not None and _intact(original, original.content):
        return _begins_with(original.content, content, 0)
    compared = 0
    for offset, tail in original.marks:
        before = content.read(offset - tail.length, tail.length)
        if len(before) < tail.length:
            break
        if not tail.matches(before):
            return False
        compared += tail.length
    return compared >= limits.TAIL_BYTES


def _intact(original: FollowedFile, content: Content) -> bool:
    """Return whether an uncompressed file still has the bytes that were read: it was not truncated meanwhile."""
    if original.state.compression is not None:
        return False
    head = content.read(0, len(original.state.head))
    before = content.read(original.read.offset - original.tail.length, original.tail.length)
    return head == original.state.head and original.tail.matches(before)


def _begins_with(original: Content, content: Content, offset: int) -> bool:
    """Return whether ``content`` from ``offset`` to its end equals ``original`` at the same place."""
    while True:
        # Read the copy first: only the original grows meanwhile.
        copied = content.read(offset, limits.BLOCK_BYTES)
        if copied != original.read(offset, len(copied)):
            return False
        if len(copied) < limits.BLOCK_BYTES:
            return True
        offset += len(copied)
