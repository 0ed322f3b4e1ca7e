"""What a client gets to read a table's files with: credentials of the store, signatures of its requests, or nothing.

1. A client says what it can do (``X-Iceberg-Access-Delegation``). Credentials are given if there are any, else signatures.
2. For signatures it gets the path of the signer (``signing``), which it asks before each of its requests.
3. A directory is no bucket: its files are at ``s3://tidelog/…`` for clients whose requests are signed. They let the gateway plan
   their scans, since manifests have the directory's own paths.

Source: Iceberg's "REST Catalog API", ``X-Iceberg-Access-Delegation``, ``LoadTableResult``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit

from starlette.requests import Request

from gateway.delta_sharing.signed_files import base_url, signs
from gateway.gateway import engine_of, gateway_of
from gateway.iceberg.credentials import is_asked_for, vended_properties
from gateway.iceberg.route import TOPICS
from gateway.iceberg_problem import PREFIX
from log_format.errors import BackOff, StoreUnavailable
from log_format.layout import topic_root
from log_format.store import ObjectStore, SignsReads

SIGNING: Final = "remote-signing"
SIGNED_S: Final = 60
"""Seconds for which a URL of the store is valid: the client uses it at once."""
STAND_IN: Final = "s3://tidelog"
"""Where a directory's files are for clients whose requests are signed."""
_REGION: Final = "us-east-1"
"""Region that is told: the signer does not use it."""
ResultT = TypeVar("ResultT")


def root_for(request: Request) -> str:
    """Return the URI of the store as the client knows it, without a slash at its end."""
    own_uri = gateway_of(request).store_uri.rstrip("/")
    return STAND_IN if is_asked_for(request, SIGNING) and not own_uri.startswith("s3://") else own_uri


async def access_properties(request: Request, topic: str) -> dict[str, str]:
    """Return the properties by which a client reads a topic's table; none if it asks for nothing that there is.

    Raises ``BackOff`` if what gives them does not answer.
    """
    given = await vended_properties(request, topic)
    return given or await _signing_properties(request, topic)


async def _signing_properties(request: Request, topic: str) -> dict[str, str]:
    if not is_asked_for(request, SIGNING):
        return {}
    own = base_url(request)
    found = {
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.uri": f"{own}{PREFIX}",
        "s3.signer.endpoint": f"v1/namespaces/{TOPICS}/tables/{quote(topic, safe='')}/sign",
        "s3.endpoint": own,
        "s3.path-style-access": "true",
        "s3.region": _REGION,
        "client.region": _REGION,
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }
    store = await signing_store(request)
    if store is None:
        return found | {"scan-planning-mode": "server"}
    probe = urlsplit(str(await in_store(request, lambda _: store.read_url(topic_root(topic) + "probe", SIGNED_S))))
    return found | {"s3.endpoint": f"{probe.scheme}://{probe.netloc}"}


async def signing_store(request: Request) -> SignsReads | None:
    """Return the store if it signs URLs. Raise ``BackOff``."""
    return await in_store(request, signs)


async def in_store(request: Request, work: Callable[[ObjectStore], ResultT]) -> ResultT:
    """Return what ``work`` returns in a thread. Raise ``BackOff`` where the store fails."""
    engine = engine_of(request)
    try:
        return await engine.table_pool.run(work, engine.table_store)
    except StoreUnavailable as problem:
        raise BackOff(f"The store signs nothing now: {problem.detail}.") from problem
