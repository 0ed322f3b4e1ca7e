"""The items of one value's lists, counted before Google's library reads it: it makes a whole message of each, and an item of a
thousand fields may have no bytes.

Bytes that are no message are left to the library, which refuses them.
"""

from __future__ import annotations

from typing import Final

from log_format.schemas.columns.protobuf_messages import Message
from log_format.schemas.columns.protobuf_scalars import FIXED32, FIXED64, GROUP, LENGTH, VARINT, Budget

_GROUP_END: Final = 4
_SIZES: Final = {FIXED32: 4, FIXED64: 8}
_VARINT_BYTES_MAX: Final = 10
_DEPTH_MAX: Final = 100
"""How deep the library reads."""


def count_items(message: Message, body: bytes, budget: Budget) -> None:
    """Take the items of the lists of a message from its budget. Raises ``Refused``."""
    open_: list[tuple[Message | None, int]] = [(message, len(body))]
    """Messages that are not at their end; where that is, or -1 for groups. None: an unknown one."""
    at = 0
    while open_ and len(open_) <= _DEPTH_MAX:
        node, end = open_[-1]
        if at == end:
            open_.pop()
            continue
        tag, at = _varint(body, at)
        if at < 0:
            return
        wire = tag & 7
        field = None if node is None else node.by_number.get(tag >> 3)
        inner = (
            field.node if field is not None and isinstance(field.node, Message) and field.node.wire == wire else None
        )
        if inner is not None and field is not None and field.is_list:
            budget.spend(inner.leaves, field.name)
        if wire == GROUP:
            open_.append((inner, -1))
        elif wire == _GROUP_END:
            open_.pop()
        elif wire == LENGTH:
            size, at = _varint(body, at)
            if at < 0 or at + size > len(body):
                return
            if inner is None:
                at += size
            else:
                open_.append((inner, at + size))
        elif wire == VARINT:
            _, at = _varint(body, at)
        elif wire in _SIZES:
            at += _SIZES[wire]
        else:
            return
        if at < 0 or at > len(body):
            return


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position and the position behind it; -1 for that if there is none."""
    found = 0
    for place, byte in enumerate(body[at : at + _VARINT_BYTES_MAX]):
        found |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return found, at + place + 1
    return 0, -1
