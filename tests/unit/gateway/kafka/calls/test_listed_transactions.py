"""ListTransactions needs no right, so what it costs may not grow with what others have times what a caller asks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from gateway.kafka.calls.listed_transactions import list_transactions
from log_format.topic.producer_id import format_number
from log_format.transactions.row import TransactionRow
from tests.support.cpu_time import is_cheap

FILTERS = 45_000
"""As many as a message may have."""


def test_many_filters_cost_no_more_for_each_transaction() -> None:
    """A caller without any right kept the gateway busy for minutes where there were some ten thousand transactional ids."""
    rows = {
        f"t{number}": TransactionRow(
            transaction_id="",
            transactional_id=f"t{number}",
            producer_id=format_number(number),
            epoch=0,
            state="producer",
            began_at_ms=0,
            expires_at_ms=0,
            recorded_at_ms=0,
        )
        for number in range(3_000)
    }

    async def by_transactional_id() -> Any:
        return rows

    call: Any = SimpleNamespace(
        engine=SimpleNamespace(kafka_transactions=SimpleNamespace(by_transactional_id=by_transactional_id)),
        allows=lambda *_: True,
        answer=lambda **values: values,
        arrived_at_ms=0,
    )
    request = SimpleNamespace(state_filters=(), producer_id_filters=tuple(range(3_000, 3_000 + FILTERS)))
    assert is_cheap(lambda: asyncio.run(list_transactions(call, request)), 0.3)
    request.producer_id_filters = (7, *request.producer_id_filters)
    answer = asyncio.run(list_transactions(call, request))
    assert [one["transactional_id"] for one in answer["transaction_states"]] == ["t7"]
