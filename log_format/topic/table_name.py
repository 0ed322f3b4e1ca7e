"""The name of a topic's table in catalogs: Hive and Spark take letters, digits and ``_``, and ignore case; Glue, Athena and Unity
Catalog take all that Hive takes.

1. A topic whose name has only ``a-z``, ``0-9`` and ``_`` has a table of the same name.
2. Any other topic's table has the name in lower case, with ``_`` for each other character, cut to 200 characters, then ``__`` and
   the first 12 hexadecimal digits of the name's SHA-256.
3. A name by rule 1 that looks like one by rule 2 is mapped by rule 2.

So a table's name never depends on other topics, and two topics have one name only if 48 bits of their hashes are equal. Even then
whoever registers tables refuses the second topic, and touches nothing of the first one's.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_TAKEN_AS_IT_IS: Final = re.compile(r"[a-z0-9_]+")
_MAPPED: Final = re.compile(r".*__[0-9a-f]{12}")
_REPLACED: Final = re.compile(r"[^a-z0-9_]")
_STEM_CHARACTERS_MAX: Final = 200
"""With the hash at most 214 characters. Hive takes 256, Glue and Unity Catalog 255; a topic's name has at most 249."""


def table_name(topic: str) -> str:
    """Return the name of the topic's table: ``orders`` for ``orders``, ``shop_orders__`` and digits for ``Shop.orders``."""
    if _TAKEN_AS_IT_IS.fullmatch(topic) and not _MAPPED.fullmatch(topic):
        return topic
    stem = _REPLACED.sub("_", topic.lower())[:_STEM_CHARACTERS_MAX]
    return f"{stem}__{hashlib.sha256(topic.encode()).hexdigest()[:12]}"
