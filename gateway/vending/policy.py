"""The session policy of vended credentials: a role's rights, restricted to what the policy names.

1. ``read``: GET and list everything below the topics' own prefixes: their logs, checkpoints and segments.
2. ``append``: PUT of segments of the topics whose names begin with ``VENDED``. No program of Tidelog names a segment so: no
   committed one can be replaced. No object can be listed, read, or put into a ``_delta_log``, so a commit is always a gateway's.
   On AWS a PUT must also have ``If-None-Match``. MinIO refuses such a condition.
3. Staged objects of transactions, journals, system tables, heartbeats and other topics are in neither.

A policy has at most ``POLICY_CHARACTERS_MAX`` characters, so long names leave room for fewer topics.

Source: AWS STS API reference, AssumeRole, ``Policy``; IAM user guide, "Policy elements: variables".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from log_format import layout

Access = Literal["read", "append"]

POLICY_CHARACTERS_MAX: Final = 2_048
VENDED: Final = f"{layout.SEGMENTS}vended-"
_SPECIAL: Final = re.compile(r"[*?$]")


class PolicyTooLong(ValueError):
    """The policy for so many topics with these names is too long."""


def session_policy(
    store_uri: str, topics: Sequence[str], access: Access, *, only_new: bool, partition: str = "aws"
) -> str:
    """Return the policy as JSON.

    Args:
        store_uri: ``s3://bucket/prefix``.
        topics: Names of the topics.
        access: What the credentials may do.
        only_new: Whether the store knows the condition key ``s3:if-none-match``, so that ``append`` can replace no object.
        partition: That of the role's ARN.

    Raises:
        PolicyTooLong: The policy exceeds ``POLICY_CHARACTERS_MAX``.
    """
    bucket, _, prefix = store_uri.removeprefix("s3://").partition("/")
    bucket_arn, root = f"arn:{partition}:s3:::{bucket}", f"{_literal(prefix)}/" if prefix else ""
    roots = [root + layout.topic_root(topic) for topic in topics]
    statements: list[dict[str, Any]]
    if access == "read":
        below = [f"{one}*" for one in roots]
        statements = [
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [f"{bucket_arn}/{one}" for one in below]},
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": bucket_arn,
                "Condition": {"StringLike": {"s3:prefix": below}},
            },
        ]
    else:
        resources = [f"{bucket_arn}/{one}{VENDED}*" for one in roots]
        statements = [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": resources}]
        if only_new:
            statements[0]["Condition"] = {"Null": {"s3:if-none-match": "false"}}
    policy = msgspec.json.encode({"Version": "2012-10-17", "Statement": statements}).decode()
    if len(policy) > POLICY_CHARACTERS_MAX:
        raise PolicyTooLong(
            f"the policy for {len(topics)} topics with these names has {len(policy)} characters, and the store's service takes"
            f" {POLICY_CHARACTERS_MAX}: ask for fewer at a time"
        )
    return policy


def _literal(prefix: str) -> str:
    """Return the prefix with its wildcards and variables escaped."""
    return _SPECIAL.sub(lambda found: f"${{{found[0]}}}", prefix)
