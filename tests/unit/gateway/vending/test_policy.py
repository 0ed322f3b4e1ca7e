"""A session policy names the topics' prefixes and nothing else, and fits what the service takes."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

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
    assert put["Resource"] == ["arn:aws-cn:s3:::bucket/topics/a/segments/vended-*"]
    assert put["Condition"] == {"Null": {"s3:if-none-match": "false"}}
    (plain,) = json.loads(session_policy("s3://bucket", ["a"], "append", only_new=False))["Statement"]
    assert "Condition" not in plain


KEYS = {
    "topics/a/segments/vended-x.parquet": {"read", "append"},
    "topics/a/segments/0b9f3bd2-3a1c-4b8e-9d55-7b1f3c0a1e2d.parquet": {"read"},
    "topics/a/segments/0b9f3bd23a1c4b8e9d557b1f3c0a1e2d.parquet": {"read"},
    "topics/a/compacted/0b9f3bd2-3a1c-4b8e-9d55-7b1f3c0a1e2d.parquet": {"read"},
    "topics/a/_delta_log/00000000000000000003.json": {"read"},
    "topics/a/_delta_log/00000000000000000003.checkpoint.parquet": {"read"},
    "topics/a/_delta_log/_last_checkpoint": {"read"},
    "topics/a/_cleaned/00000000000000000003": {"read"},
    "topics/a/scheduled/id/objects/x": {"read"},
    "topics/a/scheduled/id/windows/00000000000000000003.json": {"read"},
    "topics/a/scheduled/id/cancelled/1~x~0": {"read"},
    "topics/ab/segments/vended-x.parquet": set(),
    "topics/b/segments/vended-x.parquet": set(),
    "topics/__audit/segments/vended-x.parquet": set(),
    "system/transactions/staged/t/00000000-x.arrow": set(),
    "system/transactions/_delta_log/00000000000000000003.json": set(),
    "system/scheduled/0000000001/a/1~id~x": set(),
    "system/journals/0/segments/vended-x.parquet": set(),
    "system/journals/0/_delta_log/00000000000000000003.json": set(),
    "system/gateways/a.json": set(),
    "system/cluster.json": set(),
    "system/access/_delta_log/00000000000000000003.json": set(),
    "system/queues/settlements/x.parquet": set(),
    "system/consumer_offsets/_delta_log/00000000000000000003.json": set(),
}
"""Objects of each kind that gateways read, and the credentials for topic ``a`` that reach it: ``read`` GETs, ``append`` PUTs."""


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("only_new", [True, False])
def test_what_credentials_reach(key: str, only_new: bool) -> None:
    """No credential puts an object that a gateway may have written, whatever the store makes of conditions: none is replaced."""
    found = set()
    for access, action in (("read", "s3:GetObject"), ("append", "s3:PutObject")):
        statements = json.loads(session_policy("s3://bucket/log", ["a"], access, only_new=only_new))["Statement"]  # type: ignore[arg-type]
        resources = [one for statement in statements if statement["Action"] == action for one in statement["Resource"]]
        if any(fnmatchcase(f"arn:aws:s3:::bucket/log/{key}", one) for one in resources):
            found.add(access)
    assert found == KEYS[key]


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
