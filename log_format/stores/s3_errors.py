"""Errors of boto3 as those of one request to the store: what happened, whether it may pass, and what everybody may know of it.

An error's detail may reach a gateway's clients, so it names no endpoint, bucket, key or account, and has none of the server's own
words but a plain error code.

Source: Amazon S3 API reference, "Error responses".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import botocore.exceptions
import botocore.parsers

from log_format.errors import StoreReason
from log_format.stores.retry import RequestFailed

T = TypeVar("T")

_NEVER_SENT: Final = (
    botocore.exceptions.EndpointConnectionError,
    botocore.exceptions.ConnectTimeoutError,
    botocore.exceptions.ProxyConnectionError,
)
_SENT: Final = (
    botocore.exceptions.HTTPClientError,  # connection closed, read timeout, broken answer, any other error of urllib3
    botocore.exceptions.SSLError,
    botocore.exceptions.IncompleteReadError,
    botocore.parsers.ResponseParserError,
)
_NOTHING_WRITTEN: Final = {
    "BadDigest",
    "ConditionalRequestConflict",
    "IncompleteBody",
    "OperationAborted",
    "RequestTimeout",
    "TooManyRequests",
    "TooManyRequestsException",
    "XAmzContentSHA256Mismatch",
}
"""Error codes of refused requests that may succeed later, whatever their status."""

_CODE: Final = re.compile("[A-Za-z]{1,64}")
_FULL: Final = {"QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull", "InsufficientStorage"}
_HINTS: Final = {
    "AccessDenied": "the credentials don't allow this",
    "ExpiredToken": "the credentials have expired",
    "InvalidAccessKeyId": "the access key is unknown",
    "NoSuchBucket": "the bucket does not exist",
    "NotImplemented": "the server does not offer this",
    "RequestTimeTooSkewed": "this machine's clock is wrong",
    "SignatureDoesNotMatch": "the secret key is wrong",
    **dict.fromkeys(_FULL, "the store is full"),
}


def translate_errors(request: Callable[[], T]) -> T:
    """Return the result of ``request``. Turns each of boto3's errors into ``RequestFailed``; other errors pass."""
    try:
        return request()
    except botocore.exceptions.ClientError as error:
        raise _refusal(error) from error
    except _NEVER_SENT as error:
        raise _failed("it can't be reached", StoreReason.UNREACHABLE) from error
    except _SENT as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):  # detected before anything is sent
            raise _failed("its certificate is not trusted", StoreReason.UNREACHABLE, may_pass=False) from error
        late = isinstance(error, botocore.exceptions.ReadTimeoutError)
        detail = "it did not answer in time" if late else "the connection to it broke"
        raise _failed(detail, StoreReason.UNREACHABLE, may_have_happened=True) from error
    except (
        botocore.exceptions.CredentialRetrievalError,
        botocore.exceptions.MetadataRetrievalError,
    ) as error:
        raise _failed("credentials for it can't be obtained", StoreReason.ACCESS_DENIED) from error
    except botocore.exceptions.BotoCoreError as error:  # no credentials, no region, parameters: all before sending
        detail = f"the credentials or settings for it don't work: {type(error).__name__}"
        raise _failed(detail, StoreReason.ACCESS_DENIED, may_pass=False) from error


def _failed(
    detail: str, reason: StoreReason, *, may_have_happened: bool = False, may_pass: bool = True
) -> RequestFailed:
    return RequestFailed(detail, may_have_happened=may_have_happened, may_pass=may_pass, reason=reason)


def _refusal(error: botocore.exceptions.ClientError) -> RequestFailed:
    """Return the meaning of the server's error answer."""
    status, code = status_of(error), code_of(error)
    hint = _HINTS.get(code, "the store is full" if status == 507 else "")
    named = code if _CODE.fullmatch(code) else "an error"  # the server's own words go no further
    detail, reason = f"{hint}: {named} ({status})" if hint else f"{named} ({status})", _reason(status, code)
    if code in _NOTHING_WRITTEN or status == 429:
        return _failed(detail, reason)
    if status >= 500 and status not in {501, 507} and code not in _FULL:
        return _failed(detail, reason, may_have_happened=True)
    return _failed(detail, reason, may_pass=False)


def _reason(status: int, code: str) -> StoreReason:
    if code == "RequestTimeTooSkewed":
        return StoreReason.CLOCK
    if code in _FULL or status == 507:
        return StoreReason.NO_SPACE
    if status in (401, 403) or code == "ExpiredToken":
        return StoreReason.ACCESS_DENIED
    return StoreReason.BUSY if status in (429, 503) else StoreReason.FAILED


def status_of(error: botocore.exceptions.ClientError) -> int:
    """Return the answer's HTTP status; 0 without one."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def code_of(error: botocore.exceptions.ClientError) -> str:
    """Return the answer's error code; empty without one."""
    return error.response.get("Error", {}).get("Code", "")
