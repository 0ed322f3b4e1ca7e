"""Checks of the store: whoever reads it reads every record, and whoever writes it needs no gateway."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from log_format import layout
from log_format.inspection.finding import Finding, bad, good, poor
from tidelog.cli.terminal.tables import shortened

FILES_MAX: Final = 10_000
"""Number of files and directories that are checked."""


def check_store(uri: str) -> Iterator[Finding]:
    """Yield findings about a directory's modes, or a bucket's settings. Raises nothing."""
    parsed = urlsplit(uri)
    if parsed.scheme == "s3":
        yield from _bucket(parsed.netloc)
    elif parsed.scheme in {"", "file"}:
        yield _directory(Path(unquote(parsed.path)) if parsed.scheme else Path(uri))
    else:
        yield poor(
            "store",
            f"{uri} is neither a directory nor a bucket: nothing was checked.",
            "Check its permissions yourself.",
        )


def _directory(root: Path) -> Finding:
    what = "directory"
    if not root.is_dir():
        return bad(what, f"{root} is not a directory.", "Check --store.")
    written, read = [], []
    for path in islice(_below(root), FILES_MAX):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            continue
        if mode & stat.S_IWOTH:
            written.append(str(path))
        elif mode & (stat.S_IROTH | stat.S_IXOTH) and (stat.S_ISREG(mode) or path == root):
            read.append(str(path))
    if written:
        return bad(what, f"Every user of this machine may change {shortened(written)}.", f"chmod -R o-rwx {root}")
    key = root / layout.CLUSTER_KEY
    if root.stat().st_mode & stat.S_IXOTH and str(key) in read:
        said = f"Every user of this machine can read {key}, the key by which gateways authenticate each other."
        return bad(what, said, f"chmod -R o-rwx {root}")
    if read:
        return poor(what, f"Every user of this machine can read {shortened(read)}.", f"chmod -R o-rwx {root}")
    return good(what, f"Only its owner (and group) can use {root}.")


def _below(root: Path) -> Iterator[Path]:
    yield root
    for directory, names, files in os.walk(root):
        yield from (Path(directory) / name for name in (*names, *files))


def _bucket(bucket: str) -> Iterator[Finding]:
    try:
        import boto3  # noqa: PLC0415 - an extra
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    except ModuleNotFoundError:
        yield poor("bucket", "The bucket was not checked: boto3 is not installed.", "pip install 'tidelog[s3]'")
        return
    try:
        client: Any = boto3.client("s3")
    except (BotoCoreError, ValueError) as error:
        yield poor("bucket", f"The bucket could not be checked: {error}.", "Check the AWS settings.")
        return

    def asked(call: Callable[[], Any], absent: str) -> tuple[Any, str]:
        """Return the answer, or None if there is none, and the reason why it could not be requested, or ""."""
        try:
            return call(), ""
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            return None, "" if code == absent else code or "no answer"
        except BotoCoreError as error:
            return None, type(error).__name__

    block, refused = asked(
        lambda: client.get_public_access_block(Bucket=bucket), "NoSuchPublicAccessBlockConfiguration"
    )
    yield _public_block(bucket, block, refused)
    answer, refused = asked(lambda: client.get_bucket_policy(Bucket=bucket), "NoSuchBucketPolicy")
    yield from _policy(bucket, answer, refused)
    answer, refused = asked(
        lambda: client.get_bucket_encryption(Bucket=bucket), "ServerSideEncryptionConfigurationNotFoundError"
    )
    yield _encryption(bucket, answer, refused)


def _unknown(what: str, bucket: str, refused: str) -> Finding:
    rights = "s3:GetBucketPolicy, s3:GetBucketPublicAccessBlock, s3:GetEncryptionConfiguration"
    advice = f"Check it in AWS's console, or allow {rights}."
    return poor(what, f"Bucket {bucket} does not show this setting ({refused}).", advice)


def _public_block(bucket: str, answer: Any, refused: str) -> Finding:
    what = "public access"
    if refused:
        return _unknown(what, bucket, refused)
    block = (answer or {}).get("PublicAccessBlockConfiguration", {})
    names = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    if all(block.get(name) for name in names):
        return good(what, f"Bucket {bucket} blocks public access.")
    return bad(what, f"Bucket {bucket} does not block public access.", "Turn on all four of S3's public access blocks.")


def _policy(bucket: str, answer: Any, refused: str) -> Iterator[Finding]:
    if refused:
        yield _unknown("bucket policy", bucket, refused)
        return
    try:
        statements = json.loads((answer or {}).get("Policy") or "{}").get("Statement", [])
    except (ValueError, AttributeError):
        statements = []
    statements = [
        each for each in (statements if isinstance(statements, list) else [statements]) if isinstance(each, dict)
    ]
    if any(_is_public(each) for each in statements):
        said = f"The policy of bucket {bucket} allows access to everyone in the world."
        yield bad("bucket policy", said, "Name the roles that need it as Principal.")
    if any(_refuses_unconditional(each) for each in statements):
        yield good("conditional PUT", f"Bucket {bucket} refuses commits that could overwrite another.")
    else:
        said = f"Bucket {bucket} lets every writer overwrite commits."
        advice = (
            "Deny s3:PutObject on */_delta_log/*.json without If-None-Match, as infra/terraform/modules/store does."
        )
        yield poor("conditional PUT", said, advice)


def _is_public(statement: dict[str, Any]) -> bool:
    principal = statement.get("Principal")
    everyone = principal == "*" or (isinstance(principal, dict) and "*" in _list(principal.get("AWS")))
    return statement.get("Effect") == "Allow" and everyone and not statement.get("Condition")


def _refuses_unconditional(statement: dict[str, Any]) -> bool:
    condition = json.dumps(statement.get("Condition", {})).lower()
    acts = {str(each).lower() for each in _list(statement.get("Action"))}
    on_commits = any("_delta_log" in str(each) for each in _list(statement.get("Resource")))
    return (
        statement.get("Effect") == "Deny" and "s3:putobject" in acts and on_commits and "s3:if-none-match" in condition
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _encryption(bucket: str, answer: Any, refused: str) -> Finding:
    what = "encryption"
    if refused:
        return _unknown(what, bucket, refused)
    if not answer:
        return poor(
            what, f"Bucket {bucket} has no default encryption.", "Turn on SSE-S3, or SSE-KMS with a bucket key."
        )
    return good(what, f"Bucket {bucket} encrypts what is written.")
