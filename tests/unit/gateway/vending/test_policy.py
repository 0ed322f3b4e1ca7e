"""A session policy names the topics' prefixes and nothing else, and fits what the service takes."""

from __future__ import annotations

import json

import pytest

from gateway.vending.policy import POLICY_CHARACTERS_MAX, PolicyTooLong, session_policy


def test_reading_gets_and_lists_below_the_topics() -> None:
    """Two statements, and no resource but the topics' prefixes."""
    policy = json.loads(session_policy("s3://bucket/prod/log", ["a", "b.c"], "read", only_new=True))
    got, listed = policy["Statement"]
    assert got["Action"] == "s3:GetObject"
    assert got["Resource"] == ["arn:aws:s3:::bucket/prod/log/topics/a/*", "arn:aws:s3:::bucket/prod/log/topics/b.c/*"]
    assert (listed["Action"], listed["Resource"]) == ("s3:ListBucket", "arn:aws:s3:::bucket")
    assert listed["Condition"] == {"StringLike": {"s3:prefix": ["prod/log/topics/a/*", "prod/log/topics/b.c/*"]}}


def test_appending_puts_segments_only() -> None:
    """Nothing below a log, and nothing beside what other callers staged."""
    policy = json.loads(session_policy("s3://bucket", ["a"], "append", only_new=True, partition="aws-cn"))
    (put,) = policy["Statement"]
    assert put["Action"] == "s3:PutObject"
    assert put["Resource"] == ["arn:aws-cn:s3:::bucket/topics/a/segments/*"]
    assert put["Condition"] == {"Null": {"s3:if-none-match": "false"}}
    (plain,) = json.loads(session_policy("s3://bucket", ["a"], "append", only_new=False))["Statement"]
    assert "Condition" not in plain


def test_wildcards_of_the_prefix_are_literal() -> None:
    """A strange prefix opens no other."""
    policy = session_policy("s3://bucket/a*b?$c", ["t"], "read", only_new=True)
    assert "arn:aws:s3:::bucket/a${*}b${?}${$}c/topics/t/*" in policy


@pytest.mark.parametrize("access", ["read", "append"])
def test_twenty_topics_of_usual_names_fit(access: str) -> None:
    """The largest permitted request works."""
    topics = [f"orders-{number:02d}.eu" for number in range(20)]
    policy = session_policy("s3://company-log/prod", topics, access, only_new=True)  # type: ignore[arg-type]
    assert len(policy) <= POLICY_CHARACTERS_MAX


def test_names_that_do_not_fit_are_refused_and_say_so() -> None:
    """Before the service is asked."""
    with pytest.raises(PolicyTooLong, match="ask for fewer"):
        session_policy("s3://bucket", ["x" * 249] * 8, "read", only_new=True)
