"""A row of the matrix: an operation, the rights that it needs in effect, and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from tests.support.rights.world import Answer, Right, World

DESCRIBE_CLUSTER: Final = ("Describe", "cluster", "cluster")
ALTER_CLUSTER: Final = ("Alter", "cluster", "cluster")
READ: Final = ("Read", "topic", "{topic}")
WRITE: Final = ("Write", "topic", "{topic}")
WRITE_LETTERS: Final = ("Write", "topic", "{topic}.dead-letters")
WRITE_LETTERS_OF_NEW: Final = ("Write", "topic", "{topic}-new.dead-letters")
OF_SUBJECT: Final = (
    ("Read", "subject", "{topic}-value"),
    ("Write", "subject", "{topic}-value"),
    ("Read", "subject", "{topic}-referred"),
)
"""What a topic's schema needs, whose subject refers to another one."""
DESCRIBE: Final = ("Describe", "topic", "{topic}")
READ_OTHER: Final = ("Read", "topic", "{other}")
READ_GROUP: Final = ("Read", "group", "{group}")
DESCRIBE_GROUP: Final = ("Describe", "group", "{group}")
DELETE_GROUP: Final = ("Delete", "group", "{group}")
READ_QUEUE: Final = ("Read", "group", "{queue}")
ALTER_QUEUE: Final = ("Alter", "group", "{queue}")
DESCRIBE_QUEUE: Final = ("Describe", "group", "{queue}")
DELETE_QUEUE: Final = ("Delete", "group", "{queue}")
TRANSACTING: Final = ("Write", "transactional_id", "{tid}")
DESCRIBE_TRANSACTIONS: Final = ("Describe", "transactional_id", "{tid}")


@dataclass(frozen=True, kw_only=True)
class Row:
    """``operation``: as the gateway tells it. ``rights``: each is needed; without one the call is refused, and does nothing."""

    operation: str
    call: Callable[[World], Answer]
    rights: tuple[Right, ...] = ()
    what: str = ""
    """Tells rows of one operation apart."""
    shows: tuple[tuple[Right, str], ...] = ()
    """Rights without which the call is done all the same, each with what the answer then does not show."""
    prepare: Callable[[World], Any] | None = None
    """Called ahead of each call, by a caller that may do all."""
    gives_back: tuple[str, ...] = ()
    """Things that were held by what the call ends: that needs no right to them."""
    unknown: KafkaError | None = None
    """What a refusal says where its caller may not know that the thing is there."""
    may_fail: bool = False
    """Whether the call, let in, may fail for another reason: there is nothing that it could be done to."""

    @property
    def is_of_records(self) -> bool:
        """Whether it reads, writes, deletes or moves records of topics. What SQL names is the same wherever they lie."""
        rights = {"Read", "Write", "Delete", "Alter"}
        return any(one[0] in rights and one[1] == "topic" for one in self.rights) and "names, " not in self.what

    def __str__(self) -> str:
        return f"{self.operation} {self.what}".strip()
