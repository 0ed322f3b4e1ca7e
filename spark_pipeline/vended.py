"""Credentials vended by a gateway (``POST /v1/credentials``) for reading from the store: requested with a token, and renewed in
time.

``python -m spark_pipeline.vended --gateway URL --token-file FILE TOPIC…`` prints them in the form of AWS's
``credential_process``, which S3A uses. ``format("tidelog")`` requests them itself: each Python process its own.

1. The token is read from its file each time, so that it can be rotated. It is in no option, plan, log or argument.
2. It is sent only to the configured gateway: redirects are refused, and so is plain HTTP beyond loopback.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from log_format.errors import StoreUnavailable
from log_format.store import ObjectStore

DURATION_S: Final = 3_600
"""Requested lifetime. boto3 renews credentials 15 minutes before their end."""
_TIMEOUT_SECONDS: Final = 30
_ANSWER_BYTES_MAX: Final = 64 * 1024
_TOKEN_BYTES_MAX: Final = 8 * 1024


@dataclass(frozen=True, slots=True)
class VendedStore:
    """Store at ``uri``, read with credentials for ``topics`` that ``gateway`` vends for the token in ``token_file``."""

    uri: str
    gateway: str
    token_file: str
    topics: tuple[str, ...]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that refuses redirects, which could send the token elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None: no redirect is followed."""


def may_receive_token(url: str) -> bool:
    """Return whether a token may be sent to this URL: it uses TLS, or is this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))
    )


def request_credentials(vended: VendedStore) -> dict[str, Any]:
    """Request credentials, and return the gateway's answer. Raises ``StoreUnavailable``."""
    token = _token(vended.token_file)
    body = json.dumps({"topics": list(vended.topics), "access": "read", "duration_s": DURATION_S}).encode()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(f"{vended.gateway}/v1/credentials", body, headers, method="POST")  # noqa: S310
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_SECONDS) as answer:
            found: dict[str, Any] = json.loads(answer.read(_ANSWER_BYTES_MAX))
            return found
    except urllib.error.HTTPError as refusal:
        with refusal:
            said = refusal.read(_ANSWER_BYTES_MAX).decode(errors="replace")
        raise _unavailable(vended, f"answered {refusal.code}: {_detail(said)}", may_pass=refusal.code >= 429) from None
    except (OSError, ValueError) as problem:
        raise _unavailable(vended, f"was not reached: {problem}", may_pass=True) from problem


def open_vended(vended: VendedStore) -> ObjectStore:
    """Open the store with credentials that renew themselves. Raises ``StoreUnavailable``, ``ValueError``."""
    import boto3  # noqa: PLC0415 - only users of S3 have it
    import botocore.session  # noqa: PLC0415
    from botocore.credentials import RefreshableCredentials  # noqa: PLC0415

    from log_format.stores.s3 import S3Store  # noqa: PLC0415

    first = request_credentials(vended)
    inner = botocore.session.get_session()
    inner._credentials = RefreshableCredentials.create_from_metadata(  # type: ignore[attr-defined]
        metadata=_metadata(first),
        refresh_using=lambda: _metadata(request_credentials(vended)),
        method="tidelog-gateway",
    )
    session = boto3.Session(botocore_session=inner, region_name=first["region"])
    bucket, _, prefix = vended.uri.partition("://")[2].partition("/")
    return S3Store(bucket, prefix.strip("/"), session=session, endpoint_url=first["endpoint_url"])


def credential_process(vended: VendedStore) -> str:
    """Return the command for the ``credential_process`` of an AWS profile."""
    parts = [sys.executable, "-m", "spark_pipeline.vended", "--gateway", vended.gateway]
    parts += ["--token-file", vended.token_file, *vended.topics]
    return " ".join(f'"{part}"' if " " in part else part for part in parts)


def main(arguments: list[str] | None = None) -> int:
    """Print credentials for a ``credential_process``, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_pipeline.vended",
        description="Print credentials of the store for reading the topics, as AWS clients expect them of a credential_process.",
    )
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--token-file", required=True)
    parser.add_argument("topics", nargs="+")
    given = parser.parse_args(arguments)
    vended = VendedStore("", given.gateway.rstrip("/"), given.token_file, tuple(given.topics))
    if not may_receive_token(vended.gateway):
        parser.error("--gateway must be https://host:port, or on this machine http://")
    try:
        answer = request_credentials(vended)
    except StoreUnavailable as problem:
        sys.stderr.write(f"{problem.detail}\n")
        return 1
    metadata = _metadata(answer)
    printed = {
        "Version": 1,
        "AccessKeyId": metadata["access_key"],
        "SecretAccessKey": metadata["secret_key"],
        "SessionToken": metadata["token"],
        "Expiration": metadata["expiry_time"],
    }
    sys.stdout.write(json.dumps(printed) + "\n")
    return 0


def _metadata(answer: Mapping[str, Any]) -> dict[str, str]:
    ends = datetime.fromtimestamp(answer["expires_at"] / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "access_key": answer["access_key_id"],
        "secret_key": answer["secret_access_key"],
        "token": answer["session_token"],
        "expiry_time": ends,
    }


def _token(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_TOKEN_BYTES_MAX).strip().decode("ascii")
    except (OSError, UnicodeDecodeError) as problem:
        raise StoreUnavailable(path, f"the token can't be read: {problem}", may_have_happened=False) from problem


def _unavailable(vended: VendedStore, what: str, *, may_pass: bool) -> StoreUnavailable:
    detail = f"the gateway {vended.gateway}, which vends credentials, {what}"
    return StoreUnavailable("", detail, may_have_happened=False, may_pass=may_pass)


def _detail(text: str) -> str:
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, LookupError, TypeError):
        return text[:200]


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


if __name__ == "__main__":
    sys.exit(main())
