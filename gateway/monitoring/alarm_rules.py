"""The alarms that gateways judge themselves, each with its threshold and how long it must be passed.

``infra/observability/alerts.yaml`` has the same rules for Prometheus; ``tests/unit/infra/test_alarm_rules.py`` compares them.
What they mean and what to do: docs/operations.md, "Alarms".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gateway.monitoring.quantities import (
    Quantity,
    increase,
    level,
    p99_seconds,
    rate,
    ratio,
    seconds_since,
    used_share,
)

Severity = Literal["page", "ticket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A quantity and what it must exceed. ``bound``: as PromQL has it, where it is not the number itself."""

    quantity: Quantity
    above: float
    bound: str | None = None

    @property
    def promql(self) -> str:
        """The comparison."""
        return f"{self.quantity.promql} > {self.bound or f'{self.above:.10g}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: any of the thresholds is passed for ``for_minutes``. ``severity`` ``page``: clients notice already; ``ticket``:
    they will. ``said``: a sentence with ``{about}``, the values of the labels, and ``{value}``."""

    name: str
    severity: Severity
    for_minutes: int
    thresholds: Sequence[Threshold]
    said: str

    @property
    def promql(self) -> str:
        """The rule's expression."""
        return " or ".join(threshold.promql for threshold in self.thresholds)


def _rule(name: str, severity: Severity, for_minutes: int, said: str, *thresholds: Threshold) -> Rule:
    return Rule(name=name, severity=severity, for_minutes=for_minutes, thresholds=thresholds, said=said)


def _above(quantity: Quantity, above: float, bound: str | None = None) -> Threshold:
    return Threshold(quantity=quantity, above=above, bound=bound)


_REQUESTS: Final = "tidelog_http_requests_total"
_STATE, _STATE_LIMIT = "tidelog_state_bytes", "tidelog_state_bytes_limit"
RULES: Final = (
    _rule(
        *("AcknowledgementSlow", "page", 10),
        "One in a hundred acknowledgements takes {value:.1f} s.",
        _above(p99_seconds("tidelog_acknowledgement_seconds", 5), 2),
    ),
    _rule(
        *("Refusals", "page", 5),
        "{value:.1%} of the requests are refused for lack of room or of the store.",
        _above(ratio(rate(_REQUESTS, 5, where='{status="503"}', labels={"status": "503"}), rate(_REQUESTS, 5)), 0.01),
    ),
    _rule(
        *("FlushesFail", "page", 5),
        "Flushes fail with {about}: producers are not acknowledged.",
        _above(rate("tidelog_flush_failures_total", 5, ("error_code",)), 0),
    ),
    _rule(
        *("WritesFail", "page", 1),
        "The store takes no writes of this gateway. What it holds can be read.",
        _above(level("tidelog_store_writes_failing", ("instance",)), 0),
    ),
    _rule(
        *("StoreErrors", "ticket", 10),
        "Calls to the store fail ({about}).",
        _above(rate("tidelog_store_errors_total", 5, ("purpose",)), 0.1),
    ),
    _rule(
        *("CommitsConflict", "ticket", 30),
        "A commit takes {value:.1f} attempts on average: several gateways write the same topics.",
        _above(ratio(rate("tidelog_commit_attempts_sum", 10), rate("tidelog_commit_attempts_count", 10)), 1.5),
    ),
    _rule(
        *("MaintenanceBehind", "ticket", 15),
        "Unmerged segments take {value:.0%} of the memory allowed; past the limit records are refused.",
        _above(
            used_share("tidelog_manifest_bytes", "tidelog_manifest_bytes_limit"),
            *(0.5, "0.5 * tidelog_manifest_bytes_limit"),
        ),
    ),
    _rule(
        *("MaintenanceOverdue", "ticket", 1),
        "No maintenance has run for {value:.0f} s: its process hangs or is dead, or its timer does not start it.",
        _above(level("tidelog_maintenance_silent_seconds"), 0),
    ),
    _rule(
        *("TopicsUnmaintained", "ticket", 15),
        "{value:.0f} topics have more segments than maintenance would leave: does tidelog maintain run?",
        _above(level("tidelog_topics_behind_maintenance"), 0),
    ),
    _rule(
        *("StateNearItsBound", "ticket", 15),
        "The state of {about} takes {value:.0%} of its limit; past the limit more is refused.",
        _above(
            used_share(_STATE, _STATE_LIMIT, ("of",), without=("topics",)),
            *(0.8, f'0.8 * {_STATE_LIMIT}{{of!="topics"}}'),
        ),
    ),
    _rule(
        *("JournalNotDrained", "ticket", 10),
        "Journal {about}: a topic's table is {value:.0f} s further behind than its drain.ms.",
        _above(level("tidelog_journal_overdue_seconds", ("journal",)), 300),
    ),
    _rule(
        *("DrainsFail", "ticket", 15),
        "Drains fail: tables of topics at journals fall behind. The gateway's log names the topics.",
        _above(rate("tidelog_drain_failures_total", 10), 0),
    ),
    _rule(
        *("ConsumerBehind", "ticket", 10),
        "{about}: the oldest unread record is {value:.0f} s old.",
        _above(level("tidelog_group_lag_seconds", ("group", "topic")), 900),
    ),
    _rule(
        *("QueueBlocked", "ticket", 10),
        "Queue {about}: a record has not been settled for {value:.0f} s, and others behind it are.",
        _above(level("tidelog_queue_blocked_seconds", ("queue", "topic")), 43_200),
    ),
    _rule(
        *("RecordsDropped", "ticket", 0),
        "Queues without a dead letter topic dropped {value:.0f} records.",
        _above(increase("tidelog_queue_records_dropped_total", 15), 0),
    ),
    _rule(
        *("DelayedRecordsLate", "ticket", 10),
        "Delayed records are published {value:.1f} s after their time.",
        _above(p99_seconds("tidelog_publication_late_seconds", 10), 2),
    ),
    _rule(
        *("CertificateExpires", "ticket", 0),
        "The certificate that this gateway shows to clients expires within 14 days, or has expired.",
        _above(seconds_since("tidelog_certificate_expiry_timestamp_seconds"), -14 * 86_400),
    ),
)
"""The rules, the most urgent first."""
EARLY: Final = (
    _rule(
        *("AcknowledgementSlow", "page", 10),
        "In the last minute one in a hundred acknowledgements took {value:.1f} s.",
        _above(p99_seconds("tidelog_acknowledgement_seconds", 0.5), 2),
    ),
)
"""Rules that only make an alarm pending, by the last 30 to 90 seconds. Over five minutes, the quick answers of before hide for a
while that a store is slow."""
PROMETHEUS_ONLY: Final = frozenset(
    {"GatewayDown", "GatewaysDisagree", "MaintenanceStopped", "MemoryNearItsBound", "CheckpointsFail", "AuditBehind"}
)
"""Rules that gateways do not judge: what is dead can't say so."""
SAMPLED: Final = frozenset(
    name for rule in (*RULES, *EARLY) for threshold in rule.thresholds for name in threshold.quantity.names
)
"""Names of the samples that the rules need."""
