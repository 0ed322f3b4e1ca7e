"""What an exchange with a gateway comes to: an answer, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Status, headers (names in lower case) and the decompressed body of one exchange."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NeverSent(Exception):
    """The connection could not be made."""


class NotTrusted(NeverSent):
    """What listens there is no gateway that this client may talk to: its certificate, or no TLS at all. It does not pass by
    itself."""


class AnswerLost(Exception):
    """The request may have been sent; there is no whole answer."""


class GatewaySilent(AnswerLost):
    """The gateway answers nothing, and another one does."""


class AnswerTooLarge(AnswerLost):
    """An answer came that is larger than the caller allows, as it came or decompressed."""
