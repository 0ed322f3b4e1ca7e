"""A MinIO server on 127.0.0.1 with keys of its own, on one port and one directory through all its deaths."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3

from tests.support.server_process import ServerProcess, free_port

if TYPE_CHECKING:
    import pytest
    from mypy_boto3_s3 import S3Client

START_ATTEMPTS = 5


def aws_environment(endpoint_url: str, access_key: str, secret_key: str) -> dict[str, str]:
    """The variables by which boto3, deltalake and Hadoop's S3A find a server, and nothing else."""
    return {
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": secret_key,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def vended_s3(given: Mapping[str, Any]) -> Any:
    """By the credentials that ``POST /v1/credentials`` gave; to be closed by the caller."""
    return boto3.client(
        "s3",
        endpoint_url=given["endpoint_url"],
        region_name=given["region"],
        aws_access_key_id=given["access_key_id"],
        aws_secret_access_key=given["secret_access_key"],
        aws_session_token=given["session_token"],
    )


class Minio(ServerProcess):
    """Running, with no bucket. ``scripts/minio.sh install`` puts the program where it is looked for."""

    def __init__(self, directory: Path) -> None:
        cache = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache" / "tidelog")
        program = cache / "bin" / "minio"
        assert program.is_file(), f"{program} is missing: run 'scripts/minio.sh install' (it needs Go)"
        self.access_key, self.secret_key = "tidelog-tests", secrets.token_hex(16)
        environment = {
            "HOME": str(directory),
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        }
        for attempt in range(1, START_ATTEMPTS + 1):  # the free port may be taken before the server binds it
            port = free_port()
            command = [str(program), "server", "--quiet", "--address", f"127.0.0.1:{port}", str(directory / "data")]
            super().__init__("MinIO", command, port, "/minio/health/cluster", environment, directory / "minio.log")
            try:
                self.start()
            except RuntimeError:
                if attempt == START_ATTEMPTS:
                    raise
            else:
                return

    def environment(self, **more: str) -> dict[str, str]:
        """The variables by which a child process finds it, with the root's keys unless told otherwise."""
        return aws_environment(self.url, self.access_key, self.secret_key) | more

    def s3(self) -> S3Client:
        """To be closed by the caller."""
        return boto3.client("s3", **self._access())

    def client(self, service: Any) -> Any:
        """Of another service."""
        return boto3.client(service, **self._access())

    def create_bucket(self, name: str | None = None) -> str:
        """The name of a new, empty bucket."""
        name = name or f"test-{secrets.token_hex(8)}"
        client = self.s3()
        client.create_bucket(Bucket=name)
        client.close()
        return name

    def store_uri(self, patch: pytest.MonkeyPatch) -> str:
        """``s3://bucket/prefix`` with a fresh bucket, found by this process's environment for as long as the patch lasts."""
        for name, value in self.environment().items():
            patch.setenv(name, value)
        return f"s3://{self.create_bucket()}/some prefix/tidelog"

    def _access(self) -> dict[str, Any]:
        return {
            "endpoint_url": self.url,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "region_name": "us-east-1",
        }
