"""Requests to the gateway that coordinates a queue, for clients of Kafka's protocol, which name no gateway.

1. If nothing was done there (nothing was sent, the peer drains, or knows no such message), the caller serves the request
   itself: the answer is None. A queue is not taken from a coordinator that is busy.
2. Records whose answer is lost stay locked until their locks end. A settlement whose answer is lost is ``OUTCOME_UNKNOWN``.
"""

from __future__ import annotations

from typing import Final, TypeVar

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peer
from gateway.forwarding.connections import PeerAnswerLost, PeerBusy, PeerUnreachable
from gateway.forwarding.peer_message import PeerMessages
from gateway.problem import overloaded
from gateway.queues.peer_messages import (
    ANSWER_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    Refusal,
    SettleAnswer,
    SettleRequest,
    TakeAnswer,
    TakenRecords,
    TakeRequest,
    decode_message,
    encode_message,
)
from gateway.queues.received import ReceiveRequest
from gateway.queues.settlement import Result, Settlement
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, TidelogError

TAKE_PATH: Final = b"/gateways/queue-takes"
SETTLE_PATH: Final = b"/gateways/queue-settlements"
MEDIA_TYPE: Final = b"application/vnd.msgpack"
ANSWER_MS_MAX: Final = 10_000
"""Time that an answer may take, in addition to the wait for records."""
_LATER: Final = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.OVERLOADED, ErrorCode.DRAINING})
M = TypeVar("M")


class PeerQueues:
    """Requests to the coordinators of queues. Used on the event loop only."""

    def __init__(self, ownership: Ownership, messages: PeerMessages) -> None:
        self._ownership = ownership
        self._messages = messages

    async def take(self, queue: str, wish: ReceiveRequest) -> TakenRecords | None:
        """Return records that the coordinator locked, perhaps none; None: take them here. Raises ``RequestRefused``, ``BackOff``,
        ``OutcomeUnknown``."""
        answer = await self._asked(queue, TAKE_PATH, TakeRequest(queue, wish), TakeAnswer, wish.wait_ms_max)
        if answer is None:
            return None
        _check(answer.refusal)
        return answer.taken

    async def settle(self, queue: str, settlements: list[Settlement]) -> list[Result] | None:
        """Settle at the coordinator; return the result of each settlement; None: settle them here. Raises what ``take``
        raises."""
        answer = await self._asked(queue, SETTLE_PATH, SettleRequest(queue, settlements), SettleAnswer, 0)
        if answer is None:
            return None
        _check(answer.refusal)
        return answer.results

    async def _asked(self, queue: str, path: bytes, message: object, kind: type[M], wait_ms: int) -> M | None:
        peer = None if self._ownership.mode == "off" else self._ownership.of_queue(queue)
        body = b"" if peer is None else encode_message(message)
        if peer is None or len(body) > MESSAGE_BYTES_MAX or not await self._messages.breaker.admits(peer):
            return None
        try:
            status, data = await self._messages.post(
                peer,
                path,
                body,
                wait_ms=wait_ms + ANSWER_MS_MAX,
                answer_bytes_max=ANSWER_BYTES_MAX,
                media_type=MEDIA_TYPE,
            )
        except PeerBusy:
            raise overloaded("The gateway that coordinates the queue has reached its limit of requests.") from None
        except PeerUnreachable:
            self._messages.peers.rest(peer.id)
            return None
        except (PeerAnswerLost, TimeoutError) as lost:
            raise self._lost(peer) from lost
        if status != 200:
            self._messages.peers.rest(peer.id)
            return None
        try:
            return decode_message(data, kind)
        except ValueError as error:
            raise self._lost(peer) from error

    def _lost(self, peer: Peer) -> TidelogError:
        self._messages.peers.rest(peer.id)
        return OutcomeUnknown(
            "The gateway that coordinates the queue did not answer: whether the request was carried out is unknown."
        )


def _check(refusal: Refusal | None) -> None:
    """Raise the peer's refusal, unless the peer drains and this gateway may serve the request."""
    if refusal is None or refusal.code is ErrorCode.DRAINING:
        return
    if refusal.code is ErrorCode.OUTCOME_UNKNOWN:
        raise OutcomeUnknown(refusal.detail)
    raise (BackOff if refusal.code in _LATER else RequestRefused)(refusal.detail, code=refusal.code)
