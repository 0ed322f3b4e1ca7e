"""Every error of Tidelog has a code of Kafka's."""

from __future__ import annotations

import pytest

from gateway.kafka.errors import ERRORS, kafka_error
from log_format.errors import ANSWERS, ErrorCode, TidelogError

TOLD_AS_FINAL = {ErrorCode.THROTTLED}
"""Kafka delays answers instead of refusing."""


def test_every_code_is_in_the_table() -> None:
    """None is forgotten when one is added."""
    assert set(ERRORS) == set(ErrorCode)


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - TOLD_AS_FINAL))
def test_what_is_retryable_is_retried_by_clients(code: ErrorCode) -> None:
    """A retryable error that nothing came of has a code that Kafka's clients repeat by themselves."""
    if ANSWERS[code].retryable and not ANSWERS[code].may_have_happened:
        assert kafka_error(TidelogError("", code=code)).retriable
