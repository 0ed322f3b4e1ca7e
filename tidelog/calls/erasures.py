"""Administration of erasures: ask, list, describe."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable

import msgspec

from tidelog.calls.transaction_list import TransactionListCalls
from tidelog.http.transport import target
from tidelog.types.erasure import Erasure


class _Erasures(msgspec.Struct, frozen=True):
    erasures: tuple[Erasure, ...]


class ErasureCalls(TransactionListCalls):
    """Calls of ``Admin`` about erasures."""

    def erase(
        self,
        topic: str,
        keys: Iterable[bytes | str] = (),
        *,
        headers: Iterable[tuple[str, bytes | str]] = (),
        where: str | None = None,
        before_ms: int | None = None,
    ) -> Erasure:
        """Ask that the records with any of these keys or headers, or by this condition, be erased; return the request.

        Maintenance carries it out.

        Args:
            topic: the topic.
            keys: keys of the records that are meant; text is its UTF-8 bytes.
            headers: names and values: records with any of these headers are meant.
            where: condition on typed columns, such as ``data.customer = 7``: records for which it holds are meant.
            before_ms: only records with earlier timestamps; None: all that the topic has now.

        Retried automatically: a retry may leave two requests, of which one finds nothing. Raises ``UnknownTopic``, and
        ``RequestRefused`` for a condition on columns that the topic's table lacks.
        """
        body: dict[str, object] = {
            "keys_base64": [_base64(key) for key in keys],
            "headers": [{"key": name, "value_base64": _base64(value)} for name, value in headers],
        }
        if where is not None:
            body["where"] = where
        if before_ms is not None:
            body["before"] = before_ms
        return self._call("POST", target("topics", topic, "erasures"), body, repeatable=True).decode(Erasure)

    def list_erasures(self, topic: str) -> list[Erasure]:
        """Return the topic's requests to erase, oldest first: all that are not finished, and the newest finished ones.

        Raises ``UnknownTopic``.
        """
        return list(self._get(target("topics", topic, "erasures")).decode(_Erasures).erasures)

    def describe_erasure(self, topic: str, erasure_id: str) -> Erasure:
        """Return one request to erase. Raises ``UnknownErasure``, ``UnknownTopic``."""
        return self._get(target("topics", topic, "erasures", erasure_id)).decode(Erasure)


def _base64(data: bytes | str) -> str:
    return b64encode(data.encode() if isinstance(data, str) else data).decode()
