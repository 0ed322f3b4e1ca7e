"""Collection of the errors of a request, so that one answer names everything that the sender has to correct.

A refusal is ``INVALID_REQUEST`` if the envelope is wrong, ``INVALID_RECORD`` if a record can't be stored. It names at most
``REPORTED_ERRORS_MAX`` errors; decoders may stop at that number.
"""

from __future__ import annotations

from typing import Any

from log_format.errors import ErrorCode, RequestRefused
from log_format.limits import REPORTED_ERRORS_MAX


def malformed(detail: str, where: str = "", what: str | None = None) -> RequestRefused:
    """Return the refusal of a wrong envelope: 400 ``INVALID_REQUEST``.

    ``where`` is a JSON pointer (empty: the whole body), a line, or a header's name; ``what`` defaults to ``detail``.
    """
    return RequestRefused(detail, code=ErrorCode.INVALID_REQUEST, errors=[{"where": where, "what": what or detail}])


def too_large(detail: str, bytes_max: int) -> RequestRefused:
    """Return the refusal of a body above the limit: 413 ``REQUEST_TOO_LARGE`` with ``limit_bytes``."""
    return RequestRefused(detail, code=ErrorCode.REQUEST_TOO_LARGE, limit_bytes=bytes_max)


class BadRecords:
    """The errors of records that can't be stored, in the order in which they were found."""

    def __init__(self) -> None:
        self.errors: list[dict[str, str]] = []

    @property
    def full(self) -> bool:
        """Whether no more errors would be reported."""
        return len(self.errors) >= REPORTED_ERRORS_MAX

    def add(self, where: str, what: str) -> None:
        """Note one error, unless there are enough."""
        if not self.full:
            self.errors.append({"where": where, "what": what})

    def refuse(self) -> None:
        """Raise ``RequestRefused`` (400 ``INVALID_RECORD``) if any error was noted."""
        if self.errors:
            raise self.refusal()

    def refusal(self, code: ErrorCode = ErrorCode.INVALID_RECORD, **fields: Any) -> RequestRefused:
        """Return the refusal that names all noted errors, of which there must be one."""
        first = self.errors[0]
        more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
        detail = f"Nothing was stored. {first['where']}: {first['what']}{more}."
        return RequestRefused(detail, code=code, errors=self.errors, **fields)
