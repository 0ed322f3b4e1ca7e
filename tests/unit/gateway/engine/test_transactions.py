"""Transactions across gateways and crashes: what one gateway decided another finishes, and nothing is in a topic twice."""

from __future__ import annotations

from typing import Any

import pytest

from log_format.errors import ErrorCode, OutcomeUnknown, RequestRefused, StoreUnavailable

CRASHES = {
    "before the first topic": ("put_if_absent", "topics/a/_delta_log"),
    "between two topics": ("put_if_absent", "topics/b/_delta_log"),
    "before the last row": ("put", "system/transactions/decisions"),
}


async def _begun(tools: Any, gateway: Any) -> str:
    row = await gateway.engine.transactions.begin("mine", 60_000)
    for name in ("a", "b"):
        topic = await gateway.topic(name, flush_ms=0)
        batch = tools.batch_of(topic, [name.encode()])
        await gateway.engine.transactions.stage(row.transaction_id, name, batch, None)
    transaction_id: str = row.transaction_id
    return transaction_id


async def _values(tools: Any, gateway: Any) -> list[list[bytes]]:
    return [tools.values_of(await gateway.fetch(topic=name)) for name in ("a", "b")]


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("how", ["commit", "sweep"])
def test_another_gateway_finishes_what_was_decided(
    tools: Any, crash: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a gateway dies after the decision, the next look at the transaction shows all of its records, each once."""
    monkeypatch.setattr("gateway.transactions.sweeping.LEFT_ALONE_MS", -1)
    operation, prefix = CRASHES[crash]

    async def scenario() -> None:
        dying = tools.gateway()
        transaction_id = await _begun(tools, dying)
        decided = False

        def die(current: str, key: str) -> None:
            if decided and current == operation and key.startswith(prefix):
                raise StoreUnavailable(key, "the gateway died", may_have_happened=False)

        def notice(current: str, key: str) -> None:
            nonlocal decided
            decided = decided or (current == "put_if_absent" and key.startswith("system/transactions/_delta_log/"))

        dying.store.before, dying.store.after = die, notice
        with pytest.raises(OutcomeUnknown):
            await dying.engine.transactions.commit(transaction_id)
        other = tools.gateway(objects=dying.store.objects)
        if how == "sweep":
            await other.engine.sweeping.sweep_once()
            assert (await other.engine.transactions.look(transaction_id)).state == "committed"
        row = await other.engine.transactions.commit(transaction_id)
        assert [(place.topic, place.base_offset, place.record_count) for place in row.places] == [
            ("a", 0, 1),
            ("b", 0, 1),
        ]
        assert await _values(tools, other) == [[b"a"], [b"b"]]
        assert (await tools.gateway(objects=dying.store.objects).engine.transactions.commit(transaction_id)) == row

    tools.run(scenario)


def test_a_crash_before_the_decision_leaves_nothing(tools: Any) -> None:
    """A commit that could not be decided is open still: nothing of it shows, and it may be aborted."""

    async def scenario() -> None:
        gateway = tools.gateway()
        transaction_id = await _begun(tools, gateway)

        def die(current: str, key: str) -> None:
            if current.startswith("put") and key.startswith("system/transactions/"):
                raise StoreUnavailable(key, "the store is down", may_have_happened=False)

        gateway.store.before = die
        with pytest.raises(Exception, match="store"):
            await gateway.engine.transactions.commit(transaction_id)
        gateway.store.come_back()
        assert (await gateway.engine.transactions.abort(transaction_id)).state == "aborted"
        assert await _values(tools, gateway) == [[], []]
        assert not list(gateway.store.list(f"system/transactions/staged/{transaction_id}/"))

    tools.run(scenario)


def test_a_topic_deleted_between_decision_and_apply(tools: Any) -> None:
    """Records for a topic that goes after the decision go with it; the others appear, and the transaction ends."""

    async def scenario() -> None:
        dying = tools.gateway()
        transaction_id = await _begun(tools, dying)

        def die(current: str, key: str) -> None:
            if current == "put_if_absent" and key.startswith("topics/"):
                raise StoreUnavailable(key, "the gateway died", may_have_happened=False)

        dying.store.before = die
        with pytest.raises(OutcomeUnknown):
            await dying.engine.transactions.commit(transaction_id)
        other = tools.gateway(objects=dying.store.objects)
        await other.engine.administration.delete("b")
        row = await other.engine.transactions.commit(transaction_id)
        assert [place.topic for place in row.places] == ["a"]

    tools.run(scenario)


def test_fenced_at_one_gateway_is_fenced_at_all(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that has not seen the new epoch yet looks before it stages or decides; what was staged is deleted."""
    monkeypatch.setattr("gateway.transactions.sweeping.LEFT_ALONE_MS", -1)

    async def scenario() -> None:
        first = tools.gateway()
        transaction_id = await _begun(tools, first)
        second = tools.gateway(objects=first.store.objects)
        await second.engine.transactions.begin("mine", 60_000)
        batch = tools.batch_of(await first.engine.open_topic("a"), [b"late"])
        for call in (
            first.engine.transactions.stage(transaction_id, "a", batch, None),
            first.engine.transactions.commit(transaction_id),
            first.engine.transactions.abort(transaction_id),
        ):
            with pytest.raises(RequestRefused) as refusal:
                await call
            assert refusal.value.code is ErrorCode.FENCED_PRODUCER
        assert await _values(tools, second) == [[], []]
        await second.engine.sweeping.sweep_once()
        assert not list(first.store.list("system/transactions/staged/"))

    tools.run(scenario)
