"""Ids."""

from __future__ import annotations

import uuid

from log_format.ids import random_id


def test_a_random_id_is_a_uuid_of_version_4() -> None:
    """All of its other bits are drawn: in a thousand of them each is 0 and 1, and none comes twice."""
    found = [random_id() for _ in range(1000)]
    ids = [uuid.UUID(one) for one in found]
    assert [str(one) for one in ids] == found
    assert {one.version for one in ids} == {4}
    assert {one.variant for one in ids} == {uuid.RFC_4122}
    assert len(set(found)) == 1000
    ever, always = 0, (1 << 128) - 1
    for one in ids:
        ever, always = ever | one.int, always & one.int
    assert always == (4 << 76) | (2 << 62)
    assert ever == (1 << 128) - 1 - (0xB << 76) - (1 << 62)
