"""What proves a dead letter (docs/format.md, section 15), computed by the words there."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac

from gateway.queues.letter_proofs import LetterProofs

PROOFS = LetterProofs(key=b"key", queue_id="queue", topic_id="topic")
OTHERS = [("own", b"1"), ("none", None), ("tidelog-dlq-queue", b"work")]


def test_a_proof_is_what_the_format_says() -> None:
    """Number, and 20 digits of an HMAC over what the letter is and where it lies."""
    name, said = PROOFS.header(3, 17, b"k", None, OTHERS)
    content = b"1:k" + b"-" + b"3:own1:1" + b"4:none-" + b"17:tidelog-dlq-queue4:work"
    text = "\0".join(("queue", "topic", "3", "17", hashlib.sha256(content).hexdigest()))
    digits = hmac.digest(b"key", text.encode(), "sha256").hex()[:20]
    assert (name, said) == ("tidelog-dlq-proof", f"17.{digits}".encode())
    assert PROOFS.number(3, b"k", None, [*OTHERS, (name, said)]) == 17


def test_nothing_else_has_it() -> None:
    """No other place, queue, topic, key or value, and no header more, less, elsewhere or written otherwise."""
    proved = PROOFS.header(3, 17, b"k", b"", OTHERS)
    letter = [*OTHERS, proved]
    assert PROOFS.number(3, b"k", b"", letter) == 17
    for other in (
        PROOFS.number(2, b"k", b"", letter),
        PROOFS.number(3, b"k", None, letter),
        PROOFS.number(3, None, b"", letter),
        PROOFS.number(3, b"", b"k", letter),
        PROOFS.number(3, b"k", b"", [*OTHERS, ("more", b""), proved]),
        PROOFS.number(3, b"k", b"", [proved, *OTHERS]),
        PROOFS.number(3, b"k", b"", [*letter, ("more", b"")]),
        PROOFS.number(3, b"k", b"", [*OTHERS[::-1], proved]),
        PROOFS.number(3, b"k", b"", [*OTHERS, (proved[0], b"0" + proved[1])]),
        PROOFS.number(3, b"k", b"", [*OTHERS, (proved[0], b"18" + proved[1][2:])]),
        PROOFS.number(3, b"k", b"", [*OTHERS, (proved[0], None)]),
        PROOFS.number(3, b"k", b"", OTHERS),
        PROOFS.number(3, b"k", b"", []),
        dataclasses.replace(PROOFS, queue_id="other").number(3, b"k", b"", letter),
        dataclasses.replace(PROOFS, topic_id="other").number(3, b"k", b"", letter),
        dataclasses.replace(PROOFS, key=b"other").number(3, b"k", b"", letter),
    ):
        assert other is None
