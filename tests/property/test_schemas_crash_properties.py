"""A gateway that dies, or hears no answer, at any request of a registration: no id is given twice, and asking again mends it."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable
from log_format.schemas.changes import Decide, Register, compared
from log_format.schemas.decision import Decided
from log_format.schemas.schema import Schema
from log_format.schemas.state import schemas_table
from log_format.stores.memory import MemoryStore
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FaultyStore

BEFORE, AFTER, NEVER = "before the request", "after the request", "no fault"
faults = st.tuples(st.integers(0, 6), st.sampled_from((BEFORE, AFTER, NEVER)), st.integers(1, 8))


class _Died(BaseException):
    """The process is gone."""


class _Gateway:
    """One of two processes: what it knows is lost when it dies."""

    def __init__(self, objects: MemoryStore, new_id: count[int]) -> None:
        self._objects, self._ids = objects, new_id
        self.begin()

    number = -1
    """Number of the request under way."""

    def begin(self) -> None:
        """Know nothing."""
        self.store = FaultyStore(self._objects)
        self.log = TableLog(self.store, schemas_table(), ManualClock())
        self.committer = Committer(self.log, new_id=lambda: f"id{next(self._ids)}", jitter=lambda: 0.0)

    def fail(self, at_request: int, when: str, times: int, *, dies: bool) -> None:
        """From this request on, so many requests fail, or the first of them is the process's last."""
        requests = count()
        error: BaseException = _Died() if dies else StoreUnavailable("", "cut off", may_have_happened=True)

        def raised(moment: str) -> None:
            number = next(requests) if moment == BEFORE else self.number
            self.number = number
            if moment == when and at_request <= number < at_request + times:
                raise error

        self.number = -1
        self.store.before = lambda *_: raised(BEFORE)
        self.store.after = lambda *_: raised(AFTER)

    def register(self, subject: str, text: str) -> int | None:
        """The id that is answered; None: none is."""
        try:
            state = self.log.refresh()
            asked = Register(subject=subject, schema=Schema(text=text), compared=compared(state, subject))
            (outcome,) = self.committer.commit(Decide([asked], lambda: f"x{next(self._ids)}")).result
        except (BackOff, OutcomeUnknown, StoreUnavailable):
            return None
        except _Died:
            self.begin()
            return None
        return outcome.schema_id if isinstance(outcome, Decided) else None


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.sampled_from("1234"), faults, st.booleans()),
        max_size=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_no_id_is_given_twice_whatever_fails(history: list[tuple[int, str, str, tuple[int, str, int], bool]]) -> None:
    """Each id that was answered is of its schema for ever, also in a process that reads the log anew."""
    objects, new_id = MemoryStore(), count()
    gateways = [_Gateway(objects, new_id) for _ in range(2)]
    answered: dict[str, int] = {}
    for number, subject, text, (at_request, when, times), dies in history:
        gateway = gateways[number]
        gateway.fail(at_request, when, times, dies=dies)
        schema_id = gateway.register(subject, text)
        gateway.store.before = gateway.store.after = lambda *_: None
        if schema_id is not None:
            assert answered.setdefault(text, schema_id) == schema_id
        fresh = TableLog(objects, schemas_table(), ManualClock()).refresh()
        assert {key: fresh.schema(one) for key, one in answered.items()} == {key: Schema(text=key) for key in answered}
        assert fresh.next_id == len(fresh.schemas) + 1, "no id was left out, and none given twice"
    for gateway in gateways:
        for text in "1234":
            schema_id = gateway.register("later", text)
            assert answered.setdefault(text, schema_id or 0) == schema_id
    assert len(set(answered.values())) == 4
