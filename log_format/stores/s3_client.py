"""Creating a store's boto3 client, with the settings that ``s3`` explains."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
import botocore.config
import botocore.exceptions
import botocore.handlers
import botocore.loaders
import botocore.session

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@cache
def _models(search_path: str | None) -> Any:
    """Return a loader of botocore's service descriptions, shared by all sessions: reading and parsing them takes a tenth of a
    second."""
    return botocore.loaders.create_loader(search_path)


def _session() -> boto3.Session:
    core = botocore.session.get_session()
    core.register_component("data_loader", _models(core.get_config_variable("data_path")))
    return boto3.Session(botocore_session=core)


def new_client(
    session: boto3.Session | None,
    max_pool_connections: int,
    connect_timeout_ms: int,
    read_timeout_ms: int,
    signature_version: str | None,
    *,
    endpoint_url: str | None,
) -> tuple[boto3.Session, S3Client]:
    """Return a session and its S3 client.

    Args:
        session: session to use instead of a new one.
        max_pool_connections: number of connections that are kept.
        connect_timeout_ms: timeout of connecting.
        read_timeout_ms: timeout of an answer.
        signature_version: botocore's name of it; None for the default.
        endpoint_url: endpoint instead of the one in the AWS settings.

    Raises ``ValueError`` for settings that don't work.
    """
    settings = botocore.config.Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=connect_timeout_ms / 1000,
        read_timeout=read_timeout_ms / 1000,
        max_pool_connections=max_pool_connections,
        tcp_keepalive=True,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        signature_version=signature_version,
    )
    path_style = botocore.config.Config(s3={"addressing_style": "path"})
    try:
        session = _session() if session is None else session
        client = session.client("s3", config=settings, endpoint_url=endpoint_url)
        host = urlsplit(client.meta.endpoint_url).hostname or ""
        if not host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
            client = session.client("s3", config=settings.merge(path_style), endpoint_url=endpoint_url)
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise ValueError(f"the AWS settings don't work: {error}") from error
    client.meta.events.unregister("before-call.s3", botocore.handlers.add_expect_header)
    return session, client
