"""Whatever the members and topics: each partition that members want is given once, to one that wants it, and evenly."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.groups.assignment.assignors import ASSIGNORS, Subscriber, assign
from log_format.groups.holdings import partition_keys

TOPICS = ("t0", "t1", "t2")

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9))
subscriptions = st.lists(st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=6)


def _sizes(assigned: dict[str, dict[str, tuple[int, ...]]]) -> list[int]:
    return [len(list(partition_keys(given))) for given in assigned.values()]


@given(st.sampled_from(sorted(ASSIGNORS)), counts, subscriptions, st.data())
@settings(max_examples=300)
def test_every_partition_is_given_once(
    assignor: str, counts: dict[str, int], subscriptions: list[set[str]], data: st.DataObject
) -> None:
    """To a member that subscribes to its topic; nothing else is given, whatever members had before."""
    had = data.draw(
        st.lists(st.integers(0, len(subscriptions) - 1), min_size=sum(counts.values()), max_size=sum(counts.values()))
    )
    before: list[dict[str, tuple[int, ...]]] = [{} for _ in subscriptions]
    for member, (topic, number) in zip(had, ((t, n) for t in counts for n in range(counts[t])), strict=True):
        before[member][topic] = (*before[member].get(topic, ()), number)
    members = [
        Subscriber(member_id=f"m{index}", instance_id=None, topics=frozenset(topics), before=before[index])
        for index, topics in enumerate(subscriptions)
    ]
    assigned = assign(assignor, members, counts)
    assert assigned.keys() == {one.member_id for one in members}
    given_out = [key for one in assigned.values() for key in partition_keys(one)]
    wanted = {topic for topics in subscriptions for topic in topics} & counts.keys()
    assert sorted(given_out) == sorted((topic, number) for topic in wanted for number in range(counts[topic]))
    for one in members:
        assert assigned[one.member_id].keys() <= one.topics


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(0, 6), st.integers(0, 9))
@settings(max_examples=300)
def test_sticky_is_even_and_moves_the_least(had: list[int], lost: int, added: int) -> None:
    """With one subscription for all: sizes differ by one at most, and as many partitions stay as that allows."""
    before: list[tuple[int, ...]] = []
    for size in had:
        start = sum(map(len, before))
        before.append(tuple(range(start, start + size)))
    count = sum(had) + added
    lost = min(lost, len(had) - 1)
    members = [
        Subscriber(member_id=f"m{index}", instance_id=None, topics=frozenset(("t",)), before={"t": numbers})
        for index, numbers in enumerate(before[lost:])
    ]
    assigned = assign("sticky", members, {"t": count} if count else {})
    sizes = _sizes(assigned)
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1
    stayed = sum(len(set(assigned[one.member_id].get("t", ())) & set(one.before["t"])) for one in members)
    piece, more = divmod(count, len(members))
    largest_first = sorted((len(one.before["t"]) for one in members), reverse=True)
    assert stayed == sum(min(size, piece + (index < more)) for index, size in enumerate(largest_first))
