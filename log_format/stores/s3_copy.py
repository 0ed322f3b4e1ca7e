"""Copying a large object inside S3, if there is none at the target: a multipart upload whose only part is the source.

``CopyObject`` has no condition at most servers; ``CompleteMultipartUpload`` takes ``If-None-Match`` as ``PutObject`` does. A part
has at most 5 GiB, and the last one any size. Three requests, and no byte passes through this process.

Source: Amazon S3 API reference (CreateMultipartUpload, UploadPartCopy, CompleteMultipartUpload).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

import botocore.exceptions

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

COPIED_HERE_BYTES_MAX: Final = 1024 * 1024
"""Size up to which a GET and a PUT are faster than three requests."""


class LargeCopy:
    """One copy within ``bucket``; ``source`` and ``target`` are whole keys. The methods are to be called in their order.

    As a context it aborts the upload, best effort, unless it was completed. A left-over upload is no object, and the bucket's
    lifecycle rule for unfinished uploads removes it. Each method raises botocore's errors.
    """

    def __init__(self, client: S3Client, bucket: str, source: str, target: str) -> None:
        self._client = client
        self._bucket = bucket
        self._source = source
        self._target = target
        self._upload = ""
        self._etag = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and self._upload:
            with suppress(botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._target, UploadId=self._upload)

    def begin(self) -> None:
        """Begin an upload."""
        self._upload = self._client.create_multipart_upload(Bucket=self._bucket, Key=self._target)["UploadId"]

    def copy(self) -> None:
        """Copy the source into it."""
        copied = self._client.upload_part_copy(
            Bucket=self._bucket,
            Key=self._target,
            CopySource={"Bucket": self._bucket, "Key": self._source},
            PartNumber=1,
            UploadId=self._upload,
        )
        self._etag = copied["CopyPartResult"]["ETag"]

    def complete(self) -> None:
        """Make it the target, if there is none: an answer with status 412 says that there is one."""
        self._client.complete_multipart_upload(
            Bucket=self._bucket,
            Key=self._target,
            UploadId=self._upload,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": self._etag}]},
            IfNoneMatch="*",
        )
