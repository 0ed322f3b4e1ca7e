"""A store in one bucket and prefix of S3, or of a server with the same protocol, by boto3.

boto3 reads the settings, and sends rare requests and the first one. All other GetObject and PutObject go through ``s3_wire``.

1. boto3's own retries are off (``total_max_attempts=1``). They would repeat a conditional PUT whose first try may have succeeded,
   and then report the caller's own object as another's. ``retry`` repeats only what may be repeated.
2. ``put_if_absent`` is ``PutObject`` with ``If-None-Match: *``. 412: there is an object. 409: two such requests met, and this one
   wrote nothing. A server that ignores the header is not supported; ``NotImplemented`` counts as a refusal.
3. The request's signature covers the body's SHA-256, over TLS too, so a body damaged on its way is refused. The flexible
   checksums are therefore off (``when_required``): with a CRC header boto3 would leave the body unsigned over TLS, and the CRC
   costs a second pass. Responses have no transport checksum. What the format reads by range has its own CRCs, which S3's checksum
   of a whole object can't replace.
4. A PUT does not wait for ``100 Continue`` before its body, which would cost one round trip more in every flush.
5. boto3's own messages name endpoints, buckets, keys and accounts, and are only logged (``s3_errors``).
6. A directory bucket (S3 Express One Zone; its name ends with ``--x-s3``) lists only whole directories, in no order. A listing
   there is read to its end, filtered and sorted here. Everything else is the same, and boto3 opens its sessions.

Credentials, region, endpoint and profile come from the usual AWS sources (``AWS_*`` variables, files, instance roles). At any
endpoint but Amazon's the bucket is part of the path, since few other servers resolve bucket names as host names. An object is
one PUT: segments are far below its limit of 5 GiB. Only a copy is a multipart upload (``s3_copy``).

Source: Amazon S3 API reference (PutObject, GetObject, ListObjectsV2, "Conditional requests", "Error responses"), user guide
("Differences for directory buckets").
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

import boto3
import botocore.exceptions
import botocore.parsers

from log_format.clock import Clock
from log_format.errors import ObjectExists, ObjectMissing, ObjectTooLarge
from log_format.limits import S3_CONNECT_TIMEOUT_MS, S3_CONNECTIONS, S3_READ_TIMEOUT_MS, STORE_RETRY_MS_MAX
from log_format.store import ObjectInfo
from log_format.stores.keys import check_directory, check_key, check_prefix, check_range, is_key
from log_format.stores.retry import RequestFailed, Retry
from log_format.stores.s3_client import new_client
from log_format.stores.s3_copy import COPIED_HERE_BYTES_MAX, LargeCopy
from log_format.stores.s3_errors import code_of, status_of, translate_errors
from log_format.stores.s3_urls import PresignedUrls
from log_format.stores.s3_wire import ReceivedObject, S3Wire

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

T = TypeVar("T")

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
PAGE_KEYS: Final = 1000
"""Most keys in one answer to a listing."""

DIRECTORY_BUCKET_SUFFIX: Final = "--x-s3"
"""End of every directory bucket's name, and of no other bucket's."""

_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+)")


class S3Store:
    """A store in a bucket. ``prefix`` has no slash at either end; empty for the whole bucket."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        max_pool_connections: int = S3_CONNECTIONS,
        connect_timeout_ms: int = S3_CONNECT_TIMEOUT_MS,
        read_timeout_ms: int = S3_READ_TIMEOUT_MS,
        retry_ms_max: int = STORE_RETRY_MS_MAX,
        session: boto3.Session | None = None,
        endpoint_url: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open the bucket. ``session`` and ``endpoint_url`` replace the usual AWS sources."""
        if not _BUCKET.fullmatch(bucket):
            raise ValueError(f"{bucket!r} is no bucket name")
        if prefix:
            check_key(prefix)
        if min(max_pool_connections, connect_timeout_ms, read_timeout_ms) < 1:
            raise ValueError("the number of connections and the timeouts must be positive")
        self._bucket = bucket
        self._is_directory_bucket = bucket.endswith(DIRECTORY_BUCKET_SUFFIX)
        self._root = f"{prefix}/" if prefix else ""
        self._retry = Retry(budget_ms=retry_ms_max) if clock is None else Retry(budget_ms=retry_ms_max, clock=clock)
        # Explicit, since otherwise URLs for reading would be signed by version 2. A directory bucket has signatures of its own.
        signature = None if self._is_directory_bucket else "s3v4"
        session, self._client = new_client(
            session,
            max_pool_connections,
            connect_timeout_ms,
            read_timeout_ms,
            signature,
            endpoint_url=endpoint_url,
        )
        self._urls = PresignedUrls(self._client, bucket, session)
        self._wire = None if self._is_directory_bucket else S3Wire(self._client, session)

    @property
    def uri(self) -> str:
        """Address of the store: ``s3://bucket/prefix``."""
        return f"s3://{self._bucket}/{self._root}".rstrip("/")

    @property
    def lists_from_key(self) -> bool:
        """Whether listings from a key are cheap: True, except for directory buckets."""
        return not self._is_directory_bucket

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Return the object, as ``ObjectStore.get`` specifies."""
        full = self._full(key)

        def request() -> bytes:
            found = self._get_object(full, {})
            if bytes_max is not None and (found.size_bytes or 0) > bytes_max:
                found.body.close()  # also closes the connection: the rest of the body is not read
                raise ObjectTooLarge(key, found.size_bytes or 0, bytes_max)
            return found.body.read()

        return self._read(key, request)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes, as ``ObjectStore.get_range`` specifies."""
        check_range(start, end)
        full, wanted = self._full(key), f"bytes={start}-{end - 1}"

        def request() -> bytes:
            try:
                return _in_range(self._get_object(full, {"Range": wanted}), start, end)
            except botocore.exceptions.ClientError as error:
                if status_of(error) == 416:
                    return b""
                raise

        return self._read(key, request)

    def head(self, key: str) -> ObjectInfo:
        """Return size and time, as ``ObjectStore.head`` specifies."""
        full = self._full(key)
        found = self._read(key, lambda: self._client.head_object(Bucket=self._bucket, Key=full))
        modified_at_ms = int(found["LastModified"].timestamp() * 1000)
        return ObjectInfo(key=key, size_bytes=found["ContentLength"], modified_at_ms=modified_at_ms)

    def read_url(self, key: str, valid_s: int, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> str:
        """Return a signed URL, as ``SignsReads`` specifies, by signature version 4, which objects encrypted by KMS need."""
        full = self._full(key)
        return self._read(key, lambda: self._urls.sign(full, valid_s, method, headers))

    def put(self, key: str, data: bytes) -> None:
        """Write the object, as ``ObjectStore.put`` specifies."""
        full = self._full(key)
        self._change(key, lambda: self._put_object(full, data, {}), repeatable=True)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write the object unless it exists, as ``ObjectStore.put_if_absent`` specifies."""
        full = self._full(key)
        self._put_new(key, lambda: self._put_object(full, data, {"If-None-Match": "*"}))

    def copy_if_absent(self, source: str, target: str) -> None:
        """Copy the object, as ``ObjectStore.copy_if_absent`` specifies: a small one through this process."""
        check_key(target)
        try:
            self.put_if_absent(target, self.get(source, bytes_max=COPIED_HERE_BYTES_MAX))
        except ObjectTooLarge:
            with LargeCopy(self._client, self._bucket, self._full(source), self._full(target)) as copy:
                self._change(target, copy.begin, repeatable=True)
                self._read(source, copy.copy)
                self._put_new(target, copy.complete)

    def _put_new(self, key: str, put: Callable[[], object]) -> None:
        def request() -> None:
            try:
                put()
            except botocore.exceptions.ClientError as error:
                if status_of(error) == 412:
                    raise ObjectExists(key) from None
                raise

        self._change(key, request, repeatable=False)

    def delete(self, key: str) -> None:
        """Delete the object, as ``ObjectStore.delete`` specifies."""
        full = self._full(key)

        def request() -> None:
            try:
                self._client.delete_object(Bucket=self._bucket, Key=full)
            except botocore.exceptions.ClientError as error:
                if code_of(error) != "NoSuchKey":
                    raise

        self._change(key, request, repeatable=True)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects, as ``ObjectStore.list`` specifies. One request for every 1,000 objects, sent when the listing reaches
        them.

        In a directory bucket: one request for every 1,000 objects of the directory that ``prefix`` ends in, all sent at the
        start.
        """
        listed = self._sorted_objects if self._is_directory_bucket else self._objects
        return listed(check_prefix(prefix), start_after)

    def list_directories(self, prefix: str) -> Iterator[str]:
        """Yield directories, as ``ObjectStore.list_directories`` specifies. One request per 1,000 directories and objects right
        below."""
        return self._directories(check_directory(prefix))

    def _get_object(self, full: str, headers: Mapping[str, str]) -> ReceivedObject:
        """Return the answer. Also raises ``RequestFailed`` for a body of unknown length, whose truncation nobody would notice."""
        found = None if self._wire is None else self._wire.get(full, headers)
        if found is None:
            with self._learning(full):
                answer = self._client.get_object(Bucket=self._bucket, Key=full, **_parameters(headers))
            found = ReceivedObject(answer.get("ContentLength"), answer["Body"], answer.get("ContentRange"))
        if found.size_bytes is None:
            found.body.close()
            raise RequestFailed("it did not say how long its answer is", may_have_happened=False, may_pass=True)
        return found

    def _put_object(self, full: str, data: bytes, headers: Mapping[str, str]) -> None:
        if self._wire is not None and self._wire.put(full, data, headers):
            return
        with self._learning(full):
            self._client.put_object(Bucket=self._bucket, Key=full, Body=data, **_parameters(headers))

    def _learning(self, full: str) -> AbstractContextManager[None]:
        return nullcontext() if self._wire is None else self._wire.learning(full)

    def _objects(self, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        if start_after.encode() <= prefix.encode():
            # MinIO returns nothing if StartAfter is before the prefix.
            pages = self._pages(prefix, "", "")
        elif start_after.startswith(prefix):
            pages = self._pages(prefix, start_after, "")
        else:
            return
        for page in pages:
            for found in self._infos(page):
                if found.key != start_after:
                    yield found

    def _sorted_objects(self, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        directory = prefix[: prefix.rfind("/") + 1]
        listed = (found for page in self._pages(directory, "", "") for found in self._infos(page))
        start = start_after.encode()
        wanted = [found for found in listed if found.key.startswith(prefix) and found.key.encode() > start]
        yield from sorted(wanted, key=lambda found: found.key.encode())

    def _infos(self, page: ListObjectsV2OutputTypeDef) -> Iterator[ObjectInfo]:
        for found in page.get("Contents", []):
            key = found["Key"][len(self._root) :]
            # Other programs create other keys there: consoles show an empty directory by a key with a slash at the end.
            if is_key(key):
                modified_at_ms = int(found["LastModified"].timestamp() * 1000)
                yield ObjectInfo(key=key, size_bytes=found["Size"], modified_at_ms=modified_at_ms)

    def _directories(self, prefix: str) -> Iterator[str]:
        pages = self._pages(prefix, "", "/")
        found = (each["Prefix"] for page in pages for each in page.get("CommonPrefixes", []))
        for name in sorted(found, key=str.encode) if self._is_directory_bucket else found:
            if is_key(name[len(self._root) : -1]):
                yield name[len(self._root) + len(prefix) : -1]

    def _pages(self, prefix: str, start_after: str, delimiter: str) -> Iterator[ListObjectsV2OutputTypeDef]:
        request = functools.partial(
            self._client.list_objects_v2, Bucket=self._bucket, Prefix=self._root + prefix, MaxKeys=PAGE_KEYS
        )
        if start_after:
            request = functools.partial(request, StartAfter=self._root + start_after)
        if delimiter:
            request = functools.partial(request, Delimiter=delimiter)
        page = self._read(prefix, request)
        yield page
        while page["IsTruncated"]:
            page = self._read(prefix, functools.partial(request, ContinuationToken=page["NextContinuationToken"]))
            yield page

    def _full(self, key: str) -> str:
        return self._root + check_key(key)

    def _read(self, key: str, request: Callable[[], T]) -> T:
        def attempt() -> T:
            try:
                return translate_errors(request)
            except RequestFailed as failure:
                cause = failure.__cause__
                if isinstance(cause, botocore.exceptions.ClientError) and code_of(cause) in {"NoSuchKey", "404"}:
                    raise ObjectMissing(key) from None
                raise

        return self._retry.run(key, attempt, repeatable=True, changes=False)

    def _change(self, key: str, request: Callable[[], object], *, repeatable: bool) -> None:
        self._retry.run(key, lambda: translate_errors(request), repeatable=repeatable)


def _in_range(found: ReceivedObject, start: int, end: int) -> bytes:
    """Return the bytes ``[start, end)``, also if the server answered with the whole object. Raises ``RequestFailed`` for other
    bytes."""
    data = found.body.read()
    if found.content_range is None:
        return data[start:end]
    told = _CONTENT_RANGE.fullmatch(found.content_range)
    if told is not None:
        first, last, size = (int(each) for each in told.groups())
        if (first, last + 1) == (start, min(end, size)) and len(data) == last + 1 - first:
            return data
    raise RequestFailed("it answered with other bytes than were asked for", may_have_happened=False, may_pass=True)


def _parameters(headers: Mapping[str, str]) -> Any:
    """Return the headers by boto3's names, which have no hyphens."""
    return {name.replace("-", ""): value for name, value in headers.items()}
