"""Requests to the token service (STS) for temporary credentials, off the event loop.

The service gets one request for each request of a client, in a thread, with a timeout of some seconds. Its messages stay in the
gateway's log: they contain names of the account.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.problem import overloaded, refused
from gateway.vending.policy import Access, PolicyTooLong, session_policy
from gateway.vending.settings import VendingSettings
from log_format.errors import BackOff, ErrorCode, RequestRefused

CONNECT_SECONDS: Final = 2
READ_SECONDS: Final = 5
THREADS: Final = 2
WAITING_MAX: Final = 64
"""Most concurrent requests for credentials: some seconds of the service's time."""
_SESSION_NAME: Final = re.compile(r"[^A-Za-z0-9_+=,.@-]")
_SESSION_NAME_MAX: Final = 64
_TOO_LONG_CODES: Final = frozenset({"PackedPolicyTooLarge", "PackedPolicyTooLargeException", "MalformedPolicyDocument"})
_RETRYABLE_CODES: Final = frozenset(
    {"Throttling", "ThrottlingException", "RequestLimitExceeded", "ServiceUnavailable", "InternalError"}
)

_log = logging.getLogger("gateway.vending")


@dataclass(frozen=True, slots=True, kw_only=True)
class VendedCredentials:
    """Temporary credentials. ``expires_at_ms``: milliseconds since the epoch. ``endpoint_url`` None: AWS's."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_at_ms: int
    endpoint_url: str | None
    region: str


class CredentialVending:
    """Client of the token service. ``store_uri``: the store with the topics. Used on the event loop only."""

    def __init__(self, store_uri: str, settings: VendingSettings) -> None:
        self._store_uri = store_uri
        self._settings = settings
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="sts")
        self._waiting = 0
        self._client: Any = None

    def _endpoint(self) -> str | None:
        return self._settings.vending_endpoint_url or _own_endpoint()

    def check(self) -> None:
        """Raise ``RequestRefused`` (``VENDING_UNAVAILABLE``) if this store or these settings allow no credentials."""
        if not self._store_uri.startswith("s3://"):
            raise unavailable("The store is no S3 bucket: it has no temporary credentials.")
        if self._settings.vending_role_arn is None:
            raise unavailable("The gateway has no role to assume: its setting vending_role_arn names one.")

    async def vend(
        self, topics: Sequence[str], access: Access, *, duration_s: int, principal: str
    ) -> VendedCredentials:
        """Return temporary credentials for these topics. Call ``check`` first.

        Args:
            topics: Names of the topics.
            access: What the credentials may do.
            duration_s: Their lifetime.
            principal: Name of the session in the service's log.

        Raises:
            RequestRefused: ``VENDING_UNAVAILABLE``; 400 if the topics' names are too long together.
            BackOff: The service is overloaded or can't be reached.
        """
        arn = self._settings.vending_role_arn or ""
        try:
            policy = session_policy(
                self._store_uri, topics, access, only_new=self._endpoint() is None, partition=_partition(arn)
            )
        except PolicyTooLong as problem:
            raise refused(f"The names are too long together: {problem}.", [("/topics", str(problem))]) from None
        if self._waiting >= WAITING_MAX:
            raise overloaded("Too many requests wait for the store's token service.")
        request = {
            "RoleArn": arn,
            "RoleSessionName": _SESSION_NAME.sub("-", f"tidelog-{principal}")[:_SESSION_NAME_MAX],
            "Policy": policy,
            "DurationSeconds": duration_s,
        }
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._assume, request)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # In a thread

    def _assume(self, request: dict[str, Any]) -> VendedCredentials:
        import botocore.exceptions  # noqa: PLC0415 - only users of S3 have boto3, and pay for its import

        try:
            client = self._sts()
            given = client.assume_role(**request)["Credentials"]
        except botocore.exceptions.ClientError as error:
            raise _refusal(error.response.get("Error", {}).get("Code", ""), error) from error
        except botocore.exceptions.BotoCoreError as error:
            _log.warning("the token service was not reached: %s", error)
            raise BackOff("The store's token service can't be reached.") from error
        endpoint = self._endpoint()
        return VendedCredentials(
            access_key_id=given["AccessKeyId"],
            secret_access_key=given["SecretAccessKey"],
            session_token=given["SessionToken"],
            expires_at_ms=int(given["Expiration"].timestamp() * 1000),
            endpoint_url=endpoint,
            region=client.meta.region_name or "us-east-1",
        )

    def _sts(self) -> Any:
        if self._client is None:
            import boto3  # noqa: PLC0415 - as above
            from botocore.config import Config  # noqa: PLC0415

            config = Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"total_max_attempts": 2, "mode": "standard"},
            )
            session = boto3.Session()
            region = session.region_name or "us-east-1"
            endpoint = self._settings.vending_sts_endpoint
            self._client = session.client("sts", region_name=region, config=config, endpoint_url=endpoint)
        return self._client


def unavailable(detail: str) -> RequestRefused:
    """Return the 409 ``VENDING_UNAVAILABLE``."""
    return RequestRefused(detail, code=ErrorCode.VENDING_UNAVAILABLE)


def _refusal(code: str, error: Exception) -> Exception:
    _log.warning("the token service refused: %s", error)
    if code in _TOO_LONG_CODES:
        what = "have names that are too long together for the store's service: ask for fewer at a time"
        return refused(f"The topics {what}.", [("/topics", what)])
    if code in _RETRYABLE_CODES:
        return BackOff("The store's token service can't do this now.")
    return unavailable(
        "The store's token service does not let the gateway assume its role. The gateway's log says why."
    )


def _own_endpoint() -> str | None:
    """Return the endpoint at which the gateway itself finds the store; None: AWS's own."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _partition(arn: str) -> str:
    """Return the partition of the role's ARN: ``aws``, ``aws-cn``, ``aws-us-gov``."""
    parts = arn.split(":")
    return parts[1] if len(parts) > 1 and parts[1].startswith("aws") else "aws"
