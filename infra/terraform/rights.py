"""Compare what each role of an example may do, a table, with what its policies say; part of ``emulate.py``.

The policies are those that the roles and the bucket have after ``terraform apply``. They are judged together, as S3 does: an
explicit denial wins, then something must allow it (``judge.mjs``). Each role is asked for each action on each kind of object.
"""
# ruff: noqa: INP001, S603 - a part of a program that starts others

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ACCOUNT: Final = "123456789012"
ROLES: Final = ("gateway", "maintenance", "writer", "reader")
COMMIT: Final = f"_delta_log/{7:020d}.json"
MAY: Final = {
    # What each of ROLES may: r(ead), w(rite), d(elete).
    "topics/orders/segments/a.parquet": ("rw", "rwd", "rw", "r"),
    f"topics/orders/{COMMIT}": ("rw", "rwd", "rw", "r"),
    "topics/orders/_delta_log/_last_checkpoint": ("rw", "rwd", "r", "r"),
    "topics/orders/compacted/a.parquet": ("rw", "rwd", "r", "r"),
    "topics/orders/scheduled/id/objects/a": ("rwd", "rwd", "r", "r"),
    "system/journals/0/segments/a.parquet": ("rw", "rwd", "rw", "r"),
    f"system/journals/0/{COMMIT}": ("rw", "rwd", "rw", "r"),
    f"system/transactions/{COMMIT}": ("rw", "rwd", "rw", ""),
    "system/transactions/staged/a": ("rwd", "rd", "rwd", ""),
    "system/scheduled/a": ("rwd", "r", "", ""),
    f"system/consumer_offsets/{COMMIT}": ("rw", "rwd", "", ""),
    "system/consumer_offsets/offsets/a.parquet": ("rw", "rd", "", ""),
    f"system/access/{COMMIT}": ("rw", "rwd", "", ""),
    f"system/queues/{COMMIT}": ("rw", "rwd", "", ""),
    f"system/schemas/{COMMIT}": ("rw", "rwd", "r", "r"),
    "system/gateways/a.json": ("rwd", "r", "", ""),
    "system/maintenance.json": ("rw", "rw", "", ""),
    "system/probes/a": ("rwd", "rd", "", ""),
    "system/cluster.json": ("rw", "r", "rw", ""),
    "elsewhere": ("r", "r", "", ""),
    "../elsewhere": ("", "", "", ""),
}
"""Rights by key below the log's prefix; the last key is beside it in the same bucket."""
ACTIONS: Final = {"r": "s3:GetObject", "w": "s3:PutObject", "d": "s3:DeleteObject"}
NEVER_OF_OBJECTS: Final = (
    "s3:BypassGovernanceRetention",
    "s3:DeleteObjectVersion",
    "s3:GetObjectVersion",
    "s3:PutObjectAcl",
)
NEVER_OF_BUCKETS: Final = (
    "s3:DeleteBucket", "s3:DeleteBucketPolicy", "s3:PutBucketPolicy", "s3:PutBucketVersioning", "s3:PutEncryptionConfiguration",
    "s3:PutLifecycleConfiguration",
)  # fmt: skip
TLS: Final = {"aws:SecureTransport": "true", "s3:TlsVersion": "1.3"}
NEW: Final = {"s3:if-none-match": "*"}
"""Context of a PUT that is refused if there is an object."""
EVERYTHING: Final = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
"""Policy of an administrator: what the bucket refuses, it refuses an administrator, too."""


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a role may do something, and whether it should."""

    role: str
    policies: tuple[dict[str, Any], ...]
    action: str
    resource: str
    may: bool
    context: dict[str, str]
    of_resource: dict[str, Any] | None = None

    def simulation(self) -> dict[str, Any]:
        """Return the question in the judge's form."""
        asked = {
            "request": {
                "principal": f"arn:aws:iam::{ACCOUNT}:role/{self.role}",
                "action": self.action,
                "resource": {"resource": self.resource, "accountId": ACCOUNT},
                "contextVariables": self.context,
            },
            "identityPolicies": [{"name": str(n), "policy": each} for n, each in enumerate(self.policies)],
        }
        return asked if self.of_resource is None else {**asked, "resourcePolicy": self.of_resource}


def of_store(
    role: str, policies: tuple[dict[str, Any], ...], bucket: str, bucket_policy: dict[str, Any]
) -> Iterator[Question]:
    """Ask what one of ROLES may do in the bucket. ``policies``: the role's own."""

    def ask(action: str, resource: str, may: bool, context: dict[str, str]) -> Question:
        return Question(role, policies, action, resource, may, context, bucket_policy)

    arn = f"arn:aws:s3:::{bucket}"
    for key, letters in MAY.items():
        place = f"{arn}/log/{key}" if not key.startswith("../") else f"{arn}/{key[3:]}"
        granted = letters[ROLES.index(role)]
        for letter, action in ACTIONS.items():
            context = TLS | (NEW if letter == "w" else {})
            yield ask(action, place, letter in granted, context)
            yield ask(action, place, False, context | {"aws:SecureTransport": "false"})
            yield ask(action, place, False, context | {"s3:TlsVersion": "1.1"})
            yield ask(action, place.replace(bucket, f"{bucket}-2"), False, context)
        if key.endswith(COMMIT):
            yield ask("s3:PutObject", place, False, TLS)
        for action in NEVER_OF_OBJECTS:
            yield ask(action, place, False, TLS)
    yield ask("s3:ListBucket", arn, True, TLS)
    for action in NEVER_OF_BUCKETS:
        yield ask(action, arn, False, TLS)


def of_an_administrator(bucket: str, bucket_policy: dict[str, Any]) -> Iterator[Question]:
    """Ask what the bucket refuses to everybody: to replace a commit, and to come without TLS."""

    def ask(key: str, may: bool, context: dict[str, str]) -> Question:
        place = f"arn:aws:s3:::{bucket}/log/{key}"
        return Question("administrator", (EVERYTHING,), "s3:PutObject", place, may, context, bucket_policy)

    for key in MAY:
        yield ask(key, not key.endswith(COMMIT), TLS)
        yield ask(key, True, TLS | NEW)
        yield ask(key, False, TLS | NEW | {"aws:SecureTransport": "false"})


def of_key(
    role: str, policies: tuple[dict[str, Any], ...], key_arn: str, key_policy: dict[str, Any]
) -> Iterator[Question]:
    """Ask for the bucket's key, which serves a role through S3 alone; a reader decrypts only."""
    by_s3, by_hand = (
        {"kms:ViaService": "s3.eu-central-1.amazonaws.com"},
        {"kms:ViaService": "ec2.eu-central-1.amazonaws.com"},
    )
    for action in ("kms:Decrypt", "kms:GenerateDataKey", "kms:ScheduleKeyDeletion", "kms:PutKeyPolicy"):
        may = action == "kms:Decrypt" or (action == "kms:GenerateDataKey" and role != "reader")
        yield Question(role, policies, action, key_arn, may, by_s3, key_policy)
        yield Question(role, policies, action, key_arn, False, by_hand, key_policy)
        yield Question(role, policies, action, key_arn[:-1] + "x", False, by_s3, key_policy)


def of_execution(
    role: str, policies: tuple[dict[str, Any], ...], secrets: dict[str, bool], images: dict[str, bool]
) -> Iterator[Question]:
    """Ask a role that starts tasks for secrets and images. The dictionaries say which it may read."""
    for arn, may in secrets.items():
        yield Question(role, policies, "secretsmanager:GetSecretValue", arn, may, {})
        yield Question(role, policies, "secretsmanager:PutSecretValue", arn, False, {})
    for arn, may in images.items():
        for action in ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"):
            yield Question(role, policies, action, arn, may, {})
        yield Question(role, policies, "ecr:PutImage", arn, False, {})


def judged(questions: list[Question], tools: Path) -> list[str]:
    """Return the questions with a wrong answer. ``tools``: the directory into which npm has installed the judge."""
    program = tools / "judge.mjs"
    program.write_text((Path(__file__).parent / "judge.mjs").read_text())
    asked = json.dumps([each.simulation() for each in questions])
    done = subprocess.run(["node", str(program)], input=asked, capture_output=True, text=True, timeout=600, check=True)  # noqa: S607
    results: list[str] = json.loads(done.stdout)
    assert len(results) == len(questions)
    return [
        f"{each.role}: {each.action} on {each.resource} with {each.context}: {result}"
        for each, result in zip(questions, results, strict=True)
        if result not in (("Allowed",) if each.may else ("ExplicitlyDenied", "ImplicitlyDenied"))
    ]
