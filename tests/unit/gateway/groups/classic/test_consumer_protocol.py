"""What is read in the bytes of consumers, which any client may send."""

from __future__ import annotations

import pytest

from gateway.groups.classic.consumer_protocol import (
    assigned_partitions,
    assignment_of,
    subscribed_topics,
    subscription_of,
)

NAMES = [
    "\x1b]0;title\x07x",
    "[link=http://other]here[/link]",
    "../system/access",
    "..",
    "a\nb",
    "t" * 250,
    "x\u202etxt",
    "",
]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_that_no_topic_can_have_is_not_there(name: str) -> None:
    """Neither among the topics of a member nor among its partitions; the others are."""
    assert subscribed_topics(subscription_of([name, "orders"])) == ("orders",)
    assert assigned_partitions(assignment_of({name: (0,), "orders": (1, 2)})) == {"orders": (1, 2)}
