"""PutObject and GetObject without boto3's request machinery, which takes three times the CPU of the request itself.

1. The bytes on the wire equal boto3's. boto3 sends a store's first request, from which this module learns the URL before the key,
   the signing region and the user agent. So boto3 decides on endpoints, addressing style and settings.
2. botocore's signer signs with the session's credentials, which refresh themselves. The client's own HTTP session sends, so its
   connections and their number, timeouts, proxies, certificates and errors apply.
3. Failures raise what boto3 would raise: botocore's exceptions, and ``ClientError`` for an error answer.
4. Requests of kinds that were not learned are left to boto3: unsigned requests, another signature, a bucket in another region. An
   answer that redirects means that nothing was done. Then boto3 sends the request again, and this module learns from that.

Retries and the meaning of errors are in ``s3`` and ``retry``. Directory buckets are not supported: they sign with their own
sessions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.exceptions
import botocore.handlers
import botocore.parsers
import botocore.response
from botocore.awsrequest import HeadersDict
from botocore.httpsession import URLLib3Session

from log_format.stores.s3_exchange import Answer, Exchange
from log_format.stores.s3_signature import (
    AUTHORIZATION,
    Signer,
    authorization,
    is_alike,
    request_kind,
    with_signed_headers,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_PARSER: Final = botocore.parsers.create_parser("rest-xml")
_SIGNATURE: Final = "AWS4-HMAC-SHA256 Credential="
_UNSIGNED: Final = frozenset(botocore.auth.SIGNED_HEADERS_BLACKLIST)
_REDIRECTS: Final = {301, 302, 307}
_ELSEWHERE: Final = {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _LearnedRequest:
    """The common parts of boto3's requests to the bucket. A key's URL is ``base`` and the quoted key."""

    base: str
    path: str
    """Path of ``base``."""
    host: str
    region: str
    user_agent: str
    alike: set[tuple[str, ...]] = field(default_factory=set)
    """Kinds of requests (``s3_signature.request_kind``) whose signatures were made both ways, and were equal."""
    exchange: Exchange | None = None
    """Sender over open connections; None if there is a proxy."""


class ReceivedObject(NamedTuple):
    """An answer to GetObject."""

    size_bytes: int | None
    """Length of the body; None if the answer does not say it."""
    body: botocore.response.StreamingBody
    """Body, which the caller must read or close."""
    content_range: str | None
    """Range of the object that the body has; None for all of it."""


class _Headers(dict[str, str]):
    """The headers of one request. botocore's own class for them costs as much as the rest of a request."""

    def get_all(self, name: str) -> list[str]:
        """Return the header's values like ``email.message.Message.get_all``, for the signer."""
        return [self[name]]


class _Signer(botocore.auth.S3SigV4Auth):
    """botocore's signer over ``_Headers``."""

    def headers_to_sign(self, request: Any) -> Any:
        """Return the request's headers that are signed, with their names in lower case."""
        named = {name.lower(): value for name, value in request.headers.items()}
        return _Headers({name: value for name, value in named.items() if name not in _UNSIGNED})


class S3Wire:
    """A sender of one client's frequent requests to one bucket. Thread-safe, like the client."""

    def __init__(self, client: S3Client, session: boto3.Session) -> None:
        self._session = session
        self._client = client
        self._http: Any = client._endpoint.http_session  # type: ignore[attr-defined]
        self._context = {"client_config": client.meta.config, "has_streaming_input": True}
        self._learned: _LearnedRequest | None = None
        self._asked = threading.local()
        client.meta.events.register("before-send.s3", self._learn)

    @contextmanager
    def learning(self, key: str) -> Iterator[None]:
        """Learn from the request about ``key`` that boto3 sends inside this context."""
        self._asked.key = key
        try:
            yield
        finally:
            self._asked.key = None

    def put(self, key: str, data: bytes, headers: Mapping[str, str]) -> bool:
        """Send a PutObject with these headers. Return False, doing nothing, if boto3 must send it. Raises as ``put_object``."""
        answer = self._put(key, data, headers)
        # S3 may send status 200 before it is done, and then report an error in the body.
        if answer is not None and answer.body:
            special: Any = botocore.handlers._looks_like_special_case_error  # type: ignore[attr-defined]
            if special(answer.status, answer.body):
                raise _error("PutObject", 500, answer.headers, answer.body)
        return answer is not None

    def get(self, key: str, headers: Mapping[str, str]) -> ReceivedObject | None:
        """Send a GetObject with these headers. Return None if boto3 must send it. Raises as ``get_object``."""
        answer = self._send("GET", key, headers, None, stream_output=True)
        if answer is None:
            return None
        named: Any = answer.headers
        size = named.get("Content-Length")
        return ReceivedObject(None if size is None else int(size), _body(answer), named.get("Content-Range"))

    def _put(self, key: str, data: bytes, headers: Mapping[str, str]) -> Answer | None:
        """Send the request; return None if boto3 must send it."""
        learned, credentials = self._learned, self._session.get_credentials()
        if learned is None or credentials is None:
            return None
        if learned.exchange is not None:
            frozen = credentials.get_frozen_credentials()
            named = with_signed_headers(
                {"Host": learned.host, "User-Agent": learned.user_agent, **headers}, data, frozen.token
            )
            if request_kind(named) in learned.alike:
                target = learned.path + quote(key, safe="/~")
                signer = Signer(str(frozen.access_key), str(frozen.secret_key), learned.region)
                named[AUTHORIZATION] = authorization("PUT", target, named, signer)
                answer = learned.exchange.answer("PUT", target, named, data)
                if answer is not None:
                    return self._judge_answer("PutObject", answer)
        sent = self._send("PUT", key, headers, data, stream_output=False)
        return None if sent is None else Answer(sent.status_code, sent.headers, sent.content)

    def _send(
        self, method: str, key: str, headers: Mapping[str, str], data: bytes | None, *, stream_output: bool
    ) -> botocore.awsrequest.AWSResponse | None:
        learned, credentials = self._learned, self._session.get_credentials()
        if learned is None or credentials is None:
            return None
        named: Any = _Headers({"Host": learned.host, "User-Agent": learned.user_agent, **headers})
        request: Any = botocore.awsrequest.AWSPreparedRequest(
            method, learned.base + quote(key, safe="/~"), named, data, stream_output
        )
        request.params, request.context = {}, {**self._context}  # the signer reads them
        frozen = credentials.get_frozen_credentials()
        _Signer(frozen, "s3", learned.region).add_auth(request)
        if data is not None and learned.exchange is not None:
            signer = Signer(str(frozen.access_key), str(frozen.secret_key), learned.region)
            if is_alike(method, learned.path + quote(key, safe="/~"), named, data, signer):
                learned.alike.add(request_kind(named))
        answer: botocore.awsrequest.AWSResponse = self._http.send(request)
        if answer.status_code < 300:
            return answer
        body = _body(answer).read() if stream_output else answer.content
        operation = "PutObject" if method == "PUT" else "GetObject"
        self._judge_answer(operation, Answer(answer.status_code, answer.headers, body))
        return None

    def _judge_answer(self, operation: str, answer: Answer) -> Answer | None:
        """Return the answer, None if boto3 must send the request elsewhere. Raises ``ClientError``."""
        if answer.status < 300:
            return answer
        error = _error(operation, answer.status, answer.headers, answer.body)
        if answer.status in _REDIRECTS or error.response.get("Error", {}).get("Code") in _ELSEWHERE:
            self._learned = None
            return None
        raise error

    def _learn(self, request: botocore.awsrequest.AWSPreparedRequest, **_: object) -> None:
        """Learn from a request. boto3 calls this before it sends the request, in the thread that sends it."""
        key = getattr(self._asked, "key", None)
        if key is None:
            return
        quoted, signature = quote(key, safe="/~"), _text(request.headers.get("Authorization", ""))
        scope = signature.removeprefix(_SIGNATURE).partition(",")[0].split("/")
        if (
            not signature.startswith(_SIGNATURE)
            or scope[-2:] != ["s3", "aws4_request"]
            or not request.url.endswith("/" + quoted)
        ):
            self._learned = None
            return
        base = request.url.removesuffix(quoted)
        self._learned = _LearnedRequest(
            base=base,
            path=urlsplit(base).path,
            exchange=self._exchange(base),
            host=botocore.auth._host_from_url(request.url),  # type: ignore[attr-defined]
            region=scope[-3],
            user_agent=_text(request.headers.get("User-Agent", "")),
        )

    def _exchange(self, base: str) -> Exchange | None:
        config: Any = self._client.meta.config
        if not isinstance(self._http, URLLib3Session):
            return None
        http: Any = self._http
        if http._proxy_config.proxy_url_for(base):
            return None
        pool = http._manager.connection_from_url(base)
        return Exchange(pool, base, send_s=config.connect_timeout, read_s=config.read_timeout)


def _body(answer: botocore.awsrequest.AWSResponse) -> botocore.response.StreamingBody:
    length: Any = answer.headers.get("Content-Length")  # botocore checks the length if there is one
    return botocore.response.StreamingBody(answer.raw, length)


def _error(operation: str, status: int, headers: Mapping[str, str], body: bytes) -> botocore.exceptions.ClientError:
    """Return the error that boto3 would make of the answer. Raises ``ResponseParserError``."""
    no_shape: Any = None
    parsed = _PARSER.parse({"headers": HeadersDict(headers), "status_code": status, "body": body}, no_shape)
    return botocore.exceptions.ClientError(parsed, operation)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
