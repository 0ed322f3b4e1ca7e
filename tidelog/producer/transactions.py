"""A producer's transactions, one after another: begin, commit, abort.

1. A call that ends a transaction ends it whatever the call raises, with one exception: ``OutcomeUnknown`` from a commit leaves
   it in doubt until the same commit is called again. Every other error of a commit means that nothing appeared.
2. A commit is retried until its outcome is known: gateways answer a repeated commit the same way.
3. Of two processes with one transactional id, the one that began last continues. The other is fenced: its next call raises, and
   it refuses every call from then on. A process that finds at its own beginning that another one began meanwhile refuses every
   call, too, since its knowledge may be stale. (Its beginning fences the other process as well: gateways can't tell which one
   is newer.)

Source: docs/http-api.md section 5; the states are those of Kafka's transactional producer (KIP-98).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import ParamSpec, TypeVar

from log_format.errors import ErrorCode, TidelogError
from tidelog.calls import transactions as calls
from tidelog.calls.producers import ProducerIdentity, raise_epoch
from tidelog.calls.queues import Locked, accept_in_transaction
from tidelog.calls.transactions import Begun, Committed
from tidelog.deadline import Deadline
from tidelog.errors import FencedProducer, GatewayError, OutcomeUnknown, TransactionAborted, TransactionNotOpen
from tidelog.http.transport import Transport
from tidelog.producer.sending_threads import SendingThreads
from tidelog.producer.settings import ProducerSettings
from tidelog.producer.transaction import Transaction
from tidelog.producer.transactional_sender import TransactionalSender
from tidelog.types.group import GroupMetadata, NextOffset
from tidelog.types.record import TopicPartition

_logger = logging.getLogger("tidelog.producer")


_T = TypeVar("_T", ProducerIdentity, Begun)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class _State(Enum):
    NONE = "there is no open transaction: begin one"
    OPEN = "a transaction is open"
    ENDING = "the transaction is being ended"
    IN_DOUBT = "it is not known whether the last transaction was committed: commit it again to find out"


class Transactions:
    """Transactions of one producer. ``send`` and ``add_offsets`` may come from any thread, and join the open transaction."""

    def __init__(
        self,
        transport: Transport,
        threads: SendingThreads,
        sender: TransactionalSender,
        transactional_id: str,
        settings: ProducerSettings,
    ) -> None:
        self._transport = transport
        self._threads = threads
        self._sender = sender
        self._transactional_id = transactional_id
        self._settings = settings
        self._changed = threading.Condition()
        self._state = _State.NONE
        self._transaction: Transaction | None = None
        self._last: ProducerIdentity | None = None
        self._fenced: FencedProducer | None = None
        self._entered_count = 0

    def initialize(self) -> None:
        """Fence every earlier producer of the transactional id, and abort its open transaction. Raises as ``begin``."""
        with self._changed:
            self._check_none()
        self._take_epoch(lambda deadline: raise_epoch(self._transport, self._transactional_id, deadline))

    def begin(self) -> None:
        """Open a transaction. Raises ``RuntimeError`` while another one is open, ``FencedProducer``, ``GatewayError``."""
        with self._changed:
            self._check_none()
        begun = self._take_epoch(self._begin_once)
        transaction = Transaction(begun.transaction_id, begun.producer)
        with self._changed:
            self._check_none()
            self._sender.begin(transaction)
            self._transaction = transaction
            self._state = _State.OPEN

    @contextlib.contextmanager
    def kept_open(self) -> Iterator[Transaction]:
        """Keep the open transaction from ending inside the block. Raises ``RuntimeError`` when none is open,
        ``FencedProducer``."""
        with self._changed:
            transaction = self._open_one()
            self._entered_count += 1
        try:
            yield transaction
        finally:
            with self._changed:
                self._entered_count -= 1
                self._changed.notify_all()

    def join_calls(self, take: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return ``take`` wrapped in ``kept_open``. The wrapper raises as ``kept_open``."""

        def taken(*arguments: _P.args, **named: _P.kwargs) -> _R:
            with self.kept_open():
                return take(*arguments, **named)

        return taken

    def add_offsets(self, offsets: Mapping[TopicPartition, NextOffset], group: GroupMetadata | str) -> None:
        """Add a group's offsets, as ``Producer.send_offsets_to_transaction``."""
        who = GroupMetadata(group) if isinstance(group, str) else group
        self._add(lambda name: calls.add_offsets(self._transport, name, offsets, who, self._deadline()))

    def accept(self, records: Iterable[Locked]) -> None:
        """Accept records of a queue, as ``Producer.accept_in_transaction``."""
        self._add(lambda name: accept_in_transaction(self._transport, name, records, self._deadline()))

    def _add(self, add: Callable[[str], None]) -> None:
        """Call ``add`` with the open transaction's id. After an error the transaction can no longer be committed."""
        with self.kept_open() as transaction:
            try:
                add(transaction.transaction_id)
            except GatewayError as error:
                transaction.fail(error)
                self._note_fencing(error)
                raise

    def commit(self) -> None:
        """Commit, as ``Producer.commit_transaction``."""
        was_in_doubt = self._state is _State.IN_DOUBT
        transaction = self._end()
        state_after = _State.IN_DOUBT
        try:
            failures = self._threads.settle()
            failure = failures or transaction.failure
            if failure is not None and not was_in_doubt:
                state_after = _State.NONE
                self._give_up(transaction, failure)
                raise failure if transaction.failure is None else self._typed(transaction.failure, failure)
            committed = self._commit_call(transaction)
            state_after = _State.NONE
            transaction.commit(committed, self._settings.on_delivery)
        except GatewayError as error:
            if not error.may_have_happened and state_after is _State.IN_DOUBT:
                state_after = _State.NONE
                self._fail_records(transaction, error)
            raise
        finally:
            self._ended(state_after)

    def abort(self) -> None:
        """Abort, as ``Producer.abort_transaction``."""
        was_in_doubt = self._state is _State.IN_DOUBT
        transaction = self._end()
        state_after = _State.IN_DOUBT if was_in_doubt else _State.NONE
        aborted = TransactionAborted("The transaction was aborted.")
        transaction.fail(aborted)
        try:
            calls.abort(self._transport, transaction.transaction_id, self._deadline())
            state_after = _State.NONE
        except TransactionNotOpen as error:
            if was_in_doubt:  # now the commit in doubt is known to have happened
                raise
            _logger.info("the transaction had ended before it was aborted: %s", error.detail)
        except GatewayError as error:
            self._note_fencing(error)
            if was_in_doubt or self._fenced is not None:
                raise
            _logger.warning(
                "the transaction could not be aborted, and ends by its timeout: %s: %s", error.code, error.detail
            )
        finally:
            if state_after is _State.NONE:
                self._threads.settle()
                transaction.abort(aborted, self._settings.on_delivery)
            self._ended(state_after)

    def close(self) -> None:
        """Abort an open transaction, and fail the records of one in doubt with ``OutcomeUnknown``. Must be the last call."""
        with self._changed:
            state, transaction = self._state, self._transaction
        if state is _State.OPEN:
            with contextlib.suppress(TidelogError, RuntimeError):
                self.abort()
        elif transaction is not None:
            transaction.abort(
                OutcomeUnknown("The producer was closed before the commit's outcome was known."),
                self._settings.on_delivery,
            )

    def _check_none(self) -> None:
        self._check_fenced()
        if self._state is not _State.NONE:
            raise RuntimeError(self._state.value)

    def _check_fenced(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    def _open_one(self) -> Transaction:
        self._check_fenced()
        if self._state is not _State.OPEN or self._transaction is None:
            raise RuntimeError(self._state.value)
        return self._transaction

    def _end(self) -> Transaction:
        """Block new entries into the transaction, and wait for those under way."""
        with self._changed:
            self._check_fenced()
            if self._state not in {_State.OPEN, _State.IN_DOUBT} or self._transaction is None:
                raise RuntimeError(self._state.value)
            self._state = _State.ENDING
            self._changed.wait_for(lambda: self._entered_count == 0)
            return self._transaction

    def _ended(self, state: _State) -> None:
        with self._changed:
            self._state = state
            if state is _State.NONE:
                self._transaction = None

    def _begin_once(self, deadline: Deadline) -> Begun:
        return calls.begin(
            self._transport,
            self._transactional_id,
            self._settings.abort_after_ms,
            deadline,
            check_after_ms=self._settings.transaction_check_after_ms,
            repeatable=False,
        )

    def _take_epoch(self, take: Callable[[Deadline], _T]) -> _T:
        """Raise the epoch, and check that no other producer did so meanwhile. Raises ``FencedProducer``, ``GatewayError``."""
        doubtful_count = 0
        deadline = self._deadline()
        while True:
            # One attempt per call: an attempt whose answer is lost may have raised the epoch, too, and must be counted.
            try:
                taken = take(deadline)
                break
            except GatewayError as error:
                if not error.may_have_happened or deadline.near:
                    raise
                doubtful_count += 1
        last, self._last = self._last, ProducerIdentity(taken.producer_id, taken.epoch)
        if last is None or last.producer_id != taken.producer_id:
            return taken
        if taken.epoch > last.epoch + 1 + doubtful_count:
            self._fenced = FencedProducer(
                f"Another producer used the transactional id {self._transactional_id!r} meanwhile: this producer is "
                "the older one, and is fenced."
            )
            raise self._fenced
        return taken

    def _commit_call(self, transaction: Transaction) -> Committed:
        try:
            return calls.commit(self._transport, transaction.transaction_id, self._deadline())
        except GatewayError as error:
            self._note_fencing(error)
            if error.after_doubt and error.code is ErrorCode.UNKNOWN_TRANSACTION:
                raise OutcomeUnknown(
                    f"An attempt may have committed the transaction, which the gateway no longer knows: {error.detail}"
                ) from error
            raise

    def _give_up(self, transaction: Transaction, failure: TidelogError) -> None:
        """Abort a transaction that can't be committed, at the gateway if it answers, and fail its records."""
        try:
            calls.abort(self._transport, transaction.transaction_id, self._deadline())
        except GatewayError as error:
            self._note_fencing(error)
            _logger.info(
                "the transaction could not be aborted, and ends by its timeout: %s: %s", error.code, error.detail
            )
        self._fail_records(transaction, failure)

    def _fail_records(self, transaction: Transaction, cause: TidelogError) -> None:
        aborted = TransactionAborted(f"The transaction was not committed: {cause.detail}")
        aborted.__cause__ = cause
        transaction.abort(aborted, self._settings.on_delivery)

    def _typed(self, first: TidelogError, failure: TidelogError) -> TidelogError:
        """Return ``first`` if it is a fencing error, else ``failure``."""
        return first if isinstance(first, FencedProducer) else failure

    def _note_fencing(self, error: TidelogError) -> None:
        if isinstance(error, FencedProducer):
            self._fenced = error

    def _deadline(self) -> Deadline:
        return Deadline(self._settings.delivery_timeout_ms)
