"""The name of a topic's table in catalogs whose names are lower-case letters, digits and ``_`` (Spark's, Hive's, Glue's).

1. The name depends on the topic's name alone, so it stays whatever other topics come and go.
2. Two topics have the same table name only if somebody made them so: 32 bits of SHA-256 tell names apart. Who registers tables
   refuses the second topic of a name.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_PLAIN: Final = re.compile(r"[a-z0-9_]+")
_OTHER: Final = re.compile(r"[^a-z0-9_]")
_HASH_CHARACTERS: Final = 8


def table_name(topic: str) -> str:
    """Return the topic's name if it has lower-case letters, digits and ``_`` only. Else return it in lower case, with ``_`` for
    each other character, and with ``_`` and 8 hexadecimal digits of the SHA-256 of the name behind: ``Shop.orders`` is
    ``shop_orders_5f2a…``.
    """
    if _PLAIN.fullmatch(topic):
        return topic
    digest = hashlib.sha256(topic.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{_OTHER.sub('_', topic.lower())}_{digest}"
