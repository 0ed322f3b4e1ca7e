"""Reading a table's files without credentials of the store: the gateway signs each request of the client (remote signing).

1. A client that asks for it (``X-Iceberg-Access-Delegation: remote-signing``) gets addresses in a bucket and the path of the
   signer. It asks the signer before each GET or HEAD, and sends the request to the URL that it gets.
2. The URL opens one file of that table, and only reads. In a bucket it is the store's, for ``SIGNED_S``; a directory's is the
   gateway's own, as in Delta Sharing, which judges the right again at each use.
3. The right is judged at each signature. So a right that is taken away ends reading within its 5 s, and ``SIGNED_S``.
4. A signature counts as fetched what it lets its client read: it is for the range that the client asks for, or for all of the
   file, or for a HEAD only. It is counted in the audit topic, too (``gateway.routes.signatures``).

Source: Iceberg's "REST Catalog API", ``signRequest``, ``RemoteSignRequest``; "S3 Signer API".
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.caller import caller_of
from gateway.access.needs import Need, needs
from gateway.delta_sharing.signed_files import HEAD_ONLY, PURPOSE, GatewayUrls, base_url, is_file_path
from gateway.gateway import engine_of, gateway_of
from gateway.iceberg.body import body_of
from gateway.iceberg.delegation import SIGNED_S, in_store, signing_store
from gateway.iceberg.route import IcebergRoute
from gateway.iceberg.tables import TABLE, topic_asked
from gateway.problem import refused
from gateway.quotas.limits import FETCH_BYTES
from gateway.quotas.spending import spending_of, spends
from gateway.routes.quota_charges import charge_fetched_bytes
from gateway.routes.signatures import note_signatures
from log_format.errors import DECODE_ERRORS, ErrorCode, ObjectMissing, RequestRefused
from log_format.layout import ICEBERG_BELOW, topic_root

router = APIRouter(route_class=IcebergRoute, include_in_schema=False)

_METHODS: Final = ("GET", "HEAD")
_OWN_HEADERS: Final = "x-amz-"
_HARMLESS: Final = ("", "x-id=GetObject", "x-id=HeadObject")
"""Queries that a client may send: others ask for something else than the object."""
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{1,18})")
_BODY_BYTES_MAX: Final = 32 * 1024
_MANIFEST: Final = re.compile(re.escape(ICEBERG_BELOW) + r"[A-Za-z0-9-]+/[A-Za-z0-9-]+\.avro")


class _Asked(msgspec.Struct):
    """``headers``: each with its values; ``uri``: where the client would send the request."""

    method: str
    uri: str
    headers: dict[str, list[str]] = {}


_decode: Final = msgspec.json.Decoder(_Asked).decode


@router.post(TABLE + "/sign")
@needs(Need("Read", "topic"))
@spends(FETCH_BYTES)
async def sign_request(request: Request) -> Any:
    """Return the URL at which the client may send a request for one of the table's files."""
    topic = topic_asked(request, "Read")
    try:
        asked = _decode(await body_of(request, _BODY_BYTES_MAX))
        split = urlsplit(asked.uri)
    except (*DECODE_ERRORS, ValueError) as problem:
        raise refused(f"The body is no request to sign: {problem}.") from None
    path = _path_in_table(topic, unquote(split.path))
    if asked.method not in _METHODS or path is None or split.query not in _HARMLESS:
        raise RequestRefused(
            f"Only GET and HEAD of the files of the table {topic!r} are signed.",
            code=ErrorCode.UNAUTHORIZED,
            topic=topic,
        )
    sent = {name.lower(): ",".join(values) for name, values in asked.headers.items()}
    span = sent.get("range", "")
    is_bounded = _RANGE.fullmatch(span) is not None
    key = f"{topic_root(topic)}{path}"
    if asked.method == "GET":
        await _charge(request, key, span)
    store = await signing_store(request)
    if store is None:
        secret = await engine_of(request).producer_ids.key_for(PURPOSE)
        only = HEAD_ONLY if asked.method == "HEAD" else span if is_bounded else None
        urls = GatewayUrls(base_url(request), secret, topic, caller_of(request), gateway_of(request).clock, only=only)
        await note_signatures(request, topic, 1)
        return {"uri": urls.sign(path).url, "headers": {}}
    headers = {name: value for name, value in sent.items() if name.startswith(_OWN_HEADERS)}
    if is_bounded:
        headers["range"] = span
    url = await in_store(request, lambda _: store.read_url(key, SIGNED_S, method=asked.method, headers=headers))
    await note_signatures(request, topic, 1)
    return {"uri": url, "headers": {}}


async def _charge(request: Request, key: str, span: str) -> None:
    """Charge the bytes that a GET of an object reads, if the caller's are limited. ``span``: the request's ``Range``."""
    spending = spending_of(request.scope)
    if spending is None or not spending.measures(FETCH_BYTES):
        return
    try:
        size_bytes = (await in_store(request, lambda store: store.head(key))).size_bytes
    except ObjectMissing:
        return
    match = _RANGE.fullmatch(span)
    if match is not None:
        first, last = match.groups()
        size_bytes = min(size_bytes, int(last) - int(first) + 1 if first else int(last))
    charge_fetched_bytes(request, max(0, size_bytes))


def _path_in_table(topic: str, path: str) -> str | None:
    """Return the path of a file within the table, of the path of a URL; None if it is none of its files."""
    _, found, below = path.partition(f"/{topic_root(topic)}")
    return below if found and (is_file_path(below) or _MANIFEST.fullmatch(below)) else None
