"""The name of a topic's table: the same for ever, one topic's only, and one that catalogs take."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from log_format.topic.table_name import table_name

NAMES = st.text("aAbz09._-", min_size=1, max_size=249)


def test_plain_names_stay_and_others_get_digits() -> None:
    """What SQL writes as it is keeps its name; a capital or a dot makes another name, which is written in documents."""
    assert table_name("orders_2") == "orders_2"
    assert table_name("Shop.orders") == "shop_orders__65f0b5d20ec4"
    assert len({table_name(name) for name in ("a.b", "a-b", "a_b", "A_b", "a__b")}) == 5


@given(NAMES, NAMES)
def test_two_topics_have_two_names(one: str, other: str) -> None:
    """Catalogs take every name, and a topic that is named as another's table gets a name of its own."""
    assert re.fullmatch(r"[a-z0-9_]{1,214}|[a-z0-9_]{1,249}", table_name(one))
    assert (table_name(one) == table_name(other)) == (one == other)
    mapped = table_name(one + ".")
    assert table_name(mapped) != mapped
