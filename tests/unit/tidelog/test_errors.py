"""Every code of the contract reaches a caller as the class that says what to do next."""

from __future__ import annotations

from typing import Final

from log_format.errors import ANSWERS, ErrorCode
from tidelog.errors import CLASSES, BackOff, RequestRefused

PLAIN: Final = {
    ErrorCode.NOT_FOUND,
    ErrorCode.METHOD_NOT_ALLOWED,
    ErrorCode.NOT_ACCEPTABLE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
}
"""A plain ``RequestRefused``: the client's calls never meet them, or no program can do anything about them."""


def test_every_code_has_its_class() -> None:
    """Or is plain by intent, and then its status makes it a ``RequestRefused``."""
    assert set(CLASSES) == set(ErrorCode) - PLAIN
    assert all(400 <= ANSWERS[code].status < 500 and not ANSWERS[code].retryable for code in PLAIN)


def test_the_class_says_what_the_contract_says() -> None:
    """What may be asked again unchanged and did not happen is a ``BackOff``; what must be mended is a ``RequestRefused``."""
    for code, kind in CLASSES.items():
        answers = ANSWERS[code]
        assert issubclass(kind, BackOff) == (answers.retryable and not answers.may_have_happened), code
        assert issubclass(kind, RequestRefused) == (400 <= answers.status < 500 and not answers.retryable), code
