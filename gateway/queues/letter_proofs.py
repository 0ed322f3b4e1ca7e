"""Proof that a queue put a record into its dead letter topic: a header that gateways can make, and nobody else.

1. The last header of a letter, ``tidelog-dlq-proof``, is ``<number>.<proof>``. The proof covers the queue's incarnation, the
   topic's, the partition, the number, and the letter's key, value and other headers. So no other record has it: no changed
   one, none elsewhere.
2. The number grows from letter to letter of a partition: it is the partition's end as the queue saw it, plus the letter's
   place among those put with it. A copy lies behind the letter that it copies, so its number is too low.

Pure. Only the cluster's key is needed, so a proof holds for as long as the letter does: through merges, journals, backups.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from log_format.cluster.proof import DIGITS, is_proved, prove

Headers = Sequence[tuple[str, bytes | None]]

PREFIX: Final = "tidelog-dlq-"
PROOF_HEADER: Final = f"{PREFIX}proof"
PURPOSE: Final = b"tidelog dead letters"
"""Purpose for which a key is derived from the cluster's."""
TYPED_PROOF_HEADER: Final = "tidelog.proof"
TYPED_PURPOSE: Final = b"tidelog dead letters of typed topics"
"""Header and purpose of letters that a typed topic's gateway has put there. Their ``queue_id`` is the id of the typed topic."""
_PROOF: Final = re.compile(rf"(0|[1-9][0-9]{{0,18}})\.([0-9a-f]{{{DIGITS}}})".encode())


@dataclass(frozen=True, slots=True)
class LetterProofs:
    """Proofs of one queue's letters in one incarnation of a topic."""

    key: bytes
    queue_id: str
    topic_id: str
    header_name: str = PROOF_HEADER

    def header(
        self, partition: int, number: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> tuple[str, bytes]:
        """Return the header to add to a letter with these other headers."""
        return (
            self.header_name,
            f"{number}.{prove(self._text(partition, number, key, value, headers), self.key)}".encode(),
        )

    def number(self, partition: int, key: bytes | None, value: bytes | None, headers: Headers) -> int | None:
        """Return the number of a letter that the queue has put there; None if the queue has not put it there."""
        name, said = headers[-1] if headers else ("", None)
        found = _PROOF.fullmatch(said or b"") if name == self.header_name else None
        if found is None:
            return None
        number = int(found[1])
        text = self._text(partition, number, key, value, headers[:-1])
        return number if is_proved(text, found[2].decode(), self.key) else None

    def _text(self, partition: int, number: int, key: bytes | None, value: bytes | None, headers: Headers) -> str:
        digest = hashlib.sha256()
        for part in (key, value, *(one for name, held in headers for one in (name.encode(), held))):
            digest.update(b"-" if part is None else b"%d:" % len(part))
            digest.update(part or b"")
        return "\0".join((self.queue_id, self.topic_id, str(partition), str(number), digest.hexdigest()))
