"""Errors of the operating system as those of a store."""

from __future__ import annotations

import errno
from typing import Final

from log_format.errors import ObjectMissing, StoreReason, StoreUnavailable

OUTCOME_UNKNOWN: Final = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT}
"""Errors that ``rename`` and ``link`` may report although they succeeded."""

FOR_GOOD: Final = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR),
    *(errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.ENOTSUP),
}
"""Errors that last until a person corrects the cause. ``ENOENT``: of a directory that can't be made, as below ``/proc``."""

_REASONS: Final = {
    errno.ENOSPC: StoreReason.NO_SPACE,
    errno.EDQUOT: StoreReason.NO_SPACE,
    errno.EROFS: StoreReason.READ_ONLY,
    errno.EACCES: StoreReason.ACCESS_DENIED,
    errno.EPERM: StoreReason.ACCESS_DENIED,
    errno.ESTALE: StoreReason.UNREACHABLE,
    errno.ETIMEDOUT: StoreReason.UNREACHABLE,
}

_HINTS: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted here (the file system must offer hard links)",
    errno.ELOOP: "a symbolic link is in the way: below the store's directory none is followed",
    errno.EISDIR: "a directory has this name",
    errno.ENOTDIR: "a file stands where a directory must be",
}


def describe(error: OSError) -> str:
    """Return what happened, in words, with the name of the error."""
    name = errno.errorcode.get(error.errno or 0, "OSError")
    return f"{_HINTS.get(error.errno or 0, error.strerror or str(error))} ({name})"


def failed(key: str, error: OSError, *, may_have_happened: bool) -> StoreUnavailable:
    """Return the error of an operation. Its words name no file."""
    return StoreUnavailable(
        key,
        describe(error),
        may_have_happened=may_have_happened,
        may_pass=error.errno not in FOR_GOOD,
        reason=_REASONS.get(error.errno or 0, StoreReason.FAILED),
    )


def refused(key: str, error: OSError) -> StoreUnavailable:
    """Return the error of an operation that changed nothing."""
    return failed(key, error, may_have_happened=False)


def reading_failed(key: str, error: OSError) -> ObjectMissing | StoreUnavailable:
    """Return the error of a read."""
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}:
        return ObjectMissing(key)
    return refused(key, error)
