"""``tidelog doctor --repair``: report a topic's losses, and commit a repair without the lost data."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from log_format.words import counted
from tidelog.cli.terminal.confirmation import confirm
from tidelog.cli.terminal.console import note, print_json, reading_a_store

if TYPE_CHECKING:
    from log_format.checkpoints.repair import Repair

_SHOWN_MAX = 20
"""Number of lines shown of one kind."""
TRANSACTIONS = "system/transactions"
"""Argument instead of a topic's name, which no topic can have."""


def repair_in(store: str, topic: str, *, yes: bool, as_json: bool) -> None:
    """Show what the topic has lost and, unless the user declines, repair it without that.

    Raises as ``repair_topic`` and ``confirm``, and ``ValueError`` for a missing store.
    """
    with reading_a_store():
        from log_format.checkpoints.repair import repair_topic  # noqa: PLC0415 - needs pyarrow
        from log_format.clock import SystemClock  # noqa: PLC0415 - with the others
        from log_format.ids import random_id  # noqa: PLC0415 - with the others
        from log_format.stores import open_store  # noqa: PLC0415 - only here the store itself is read
    opened, clock = open_store(store, must_exist=True), SystemClock()
    plan = repair_topic(opened, topic, clock, random_id, is_dry_run=True)
    nothing_lost = f"Topic {topic} has lost nothing: all objects that its log names exist."
    if not plan.is_needed and not as_json:
        note(nothing_lost)
        return
    if plan.is_needed and not yes:
        _show(plan)
        confirm(f"Repair topic {topic} without the lost data?", yes=yes)
    wait_ms = plan.producers_from_ms - clock.now_ms()
    if wait_ms > 0:
        note(
            f"Waiting {wait_ms / 1000:.0f} s: producers that start within a minute of the loss are refused, "
            "so the repair begins after that."
        )
        clock.sleep_ms(wait_ms)
    made = repair_topic(opened, topic, clock, random_id)
    if as_json:
        print_json(made)
        return
    if yes:
        _show(made)
    if made.version is None:
        note(nothing_lost)
    elif made.exists:
        note(
            f"Topic {topic} is repaired as of version {made.version}. Gateways see it when they next read the topic's log."
        )
    else:
        note(f"Nothing is left of topic {topic}: its name can be used again.")


def end_transactions_in(store: str, *, yes: bool, as_json: bool) -> None:
    """Show which decided transactions lack staged objects and, unless the user declines, end them without those.

    Raises ``TidelogError``, ``StoreUnavailable``, ``ValueError`` for a missing store, and as ``confirm``.
    """
    with reading_a_store():
        from log_format.checkpoints.topic_log import TopicLog  # noqa: PLC0415 - needs pyarrow
        from log_format.clock import SystemClock  # noqa: PLC0415 - with the others
        from log_format.errors import BackOff  # noqa: PLC0415 - with the others
        from log_format.ids import random_id  # noqa: PLC0415 - with the others
        from log_format.schemas.columns.subject_readers import StoredReaders  # noqa: PLC0415 - needs pyarrow
        from log_format.stores import open_store  # noqa: PLC0415 - only here the store itself is read
        from log_format.transactions.damaged_transactions import find_damaged, plan_commit_without_lost  # noqa: PLC0415 - needs pyarrow
        from log_format.transactions.transaction_finisher import TransactionFinisher  # noqa: PLC0415 - needs pyarrow
    opened, clock = open_store(store, must_exist=True), SystemClock()
    finishing = TransactionFinisher(
        opened,
        clock,
        new_id=random_id,
        log_of=lambda topic: TopicLog(opened, topic, clock),
        engine="tidelog-doctor",
        type_records=StoredReaders(opened, clock).type_records,
    )
    found = list(find_damaged(opened, finishing.log.refresh(), clock.now_ms()))
    for each in found:
        if not as_json:
            who = f" of {each.row.transactional_id}" if each.row.transactional_id else ""
            _lines(f"Transaction {each.row.transaction_id}{who} is decided and lacks", each.lost)
    if found:
        confirm("Commit these transactions without the lost objects?", yes=yes)
    ended = []
    for each in found:
        row = finishing.decide(plan_commit_without_lost(opened, each, random_id))
        with suppress(BackOff):  # a gateway is finishing it, within seconds
            row = finishing.finish(row)
        ended.append({"transaction_id": row.transaction_id, "state": row.state, "lost": each.lost})
    if as_json:
        print_json({"transactions": ended})
    elif not found:
        note("No decided transaction has lost staged objects.")
    else:
        waiting = sum(one["state"] == "committing" for one in ended)
        note(f"{len(ended) - waiting} ended; a gateway ends the other {waiting} within seconds.")


def _show(found: Repair) -> None:
    _lines("Lost or damaged", found.lost)
    _lines("Segments that are gone", found.gone)
    offsets = sum(gap.end_offset - gap.start_offset for gap in found.gaps)
    spans = [f"partition {gap.partition}: [{gap.start_offset}, {gap.end_offset})" for gap in found.gaps]
    _lines(f"Records lost: {counted(offsets, 'offset')}", spans)
    if found.is_made_anew:
        note("The topic gets a new id: groups and other readers start at its beginning.")
    if not found.has_settings and found.exists:
        note("Its settings are lost: it keeps all records until you set them again (tidelog topic alter).")


def _lines(title: str, lines: tuple[str, ...] | list[str]) -> None:
    if not lines:
        return
    note(f"{title}:")
    for line in lines[:_SHOWN_MAX]:
        note(f"  {line}")
    if len(lines) > _SHOWN_MAX:
        note(f"  and {len(lines) - _SHOWN_MAX:,} more")
