"""Outcome of an exchange with a gateway: an answer, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Status, headers (names in lower case) and decompressed body of one exchange."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NeverSent(Exception):
    """The connection could not be made, so the request was not sent."""


class NotTrusted(NeverSent):
    """The server is no gateway that this client may talk to: it has an untrusted certificate, or no TLS. Retrying does not
    help."""


class AnswerLost(Exception):
    """The request may have been sent, and no complete answer came."""


class GatewaySilent(AnswerLost):
    """The gateway does not answer, while another one does."""


class AnswerTooLarge(AnswerLost):
    """The answer, raw or decompressed, is larger than the caller allows."""
