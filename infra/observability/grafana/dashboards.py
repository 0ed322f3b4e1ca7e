"""Create ``dashboards/tidelog.json`` from the list below: ``python infra/observability/grafana/dashboards.py``.

Grafana's own form takes thirty lines for a panel, of which three matter. A test compares the file with this list.
"""
# ruff: noqa: INP001 - a program of its own

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

OUTPUT: Final = Path(__file__).parent / "dashboards" / "tidelog.json"
WIDTH: Final = 24
PANEL_WIDTH: Final = 8
PANEL_HEIGHT: Final = 7


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph: its queries by legend, and Grafana's name of the unit."""

    title: str
    unit: str
    queries: dict[str, str]


def quantile(rank: float, histogram: str, by: str = "") -> str:
    """Return the PromQL of a quantile over the rate interval."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({rank}, sum by ({labels}) (rate({histogram}_bucket[$__rate_interval])))"


def rate(counter: str, by: str = "") -> str:
    """Return the PromQL of a summed rate."""
    return f"sum{f' by ({by})' if by else ''} (rate({counter}[$__rate_interval]))"


def mean(histogram: str) -> str:
    """Return the PromQL of a mean over the rate interval."""
    return f"{rate(f'{histogram}_sum')} / {rate(f'{histogram}_count')}"


ROUNDS: Final = "tidelog_maintenance_round_seconds"
ROWS: Final = {
    "Writing": [
        Panel(
            "Acknowledgement",
            "s",
            {f"p{rank}": quantile(rank / 100, "tidelog_acknowledgement_seconds") for rank in (50, 99)},
        ),
        Panel("Records acknowledged", "cps", {"records": rate("tidelog_appended_records_total")}),
        Panel("Flushes, by why they began", "cps", {"{{reason}}": rate("tidelog_flushes_total", "reason")}),
        Panel(
            "Queues that have spent their savings for early flushes",
            "short",
            {"{{of}}": "sum by (of) (tidelog_flush_savings_spent)"},
        ),
        Panel("Flushes that failed", "cps", {"{{error_code}}": rate("tidelog_flush_failures_total", "error_code")}),
        Panel(
            "Segment and commit, p99",
            "s",
            {
                "segment": quantile(0.99, "tidelog_flush_stage_seconds"),
                "commit": quantile(0.99, "tidelog_commit_seconds"),
            },
        ),
        Panel("Bytes of a flush", "bytes", {"mean": mean("tidelog_flush_bytes")}),
        Panel("Versions tried until a commit stood", "short", {"mean": mean("tidelog_commit_attempts")}),
    ],
    "Requests": [
        Panel("Requests", "reqps", {"{{status}}": rate("tidelog_http_requests_total", "status")}),
        Panel("Time, p99", "s", {"{{route}}": quantile(0.99, "tidelog_http_request_seconds", "route")}),
        Panel("Refused", "reqps", {"{{status}}": rate('tidelog_http_requests_total{status=~"429|503"}', "status")}),
        Panel(
            "Bytes",
            "Bps",
            {"received": rate("tidelog_http_received_bytes_total"), "sent": rate("tidelog_http_sent_bytes_total")},
        ),
        Panel(
            "Open",
            "short",
            {
                "connections": "sum(tidelog_http_connections)",
                "in flight": "sum(tidelog_http_requests_in_flight)",
                "waiting polls": "sum(tidelog_waiting_polls)",
            },
        ),
        Panel("Passed on", "reqps", {"{{outcome}}": rate("tidelog_forwarded_requests_total", "outcome")}),
    ],
    "Reading and groups": [
        Panel("Records read", "cps", {"{{source}}": rate("tidelog_read_records_total", "source")}),
        Panel("Offsets committed by groups", "cps", {"offsets": rate("tidelog_group_offsets_committed_total")}),
        Panel(
            "Groups",
            "short",
            {
                "groups": "sum(tidelog_groups_coordinated)",
                "members": "sum(tidelog_group_members)",
                "rebalances a minute": f"60 * {rate('tidelog_group_rebalances_total')}",
            },
        ),
        Panel(
            "Lag, records: the ten largest",
            "short",
            {"{{group}}, {{topic}}": "topk(10, max by (group, topic) (tidelog_group_lag_records))"},
        ),
        Panel(
            "Lag, age of the oldest unread record: the ten largest",
            "s",
            {"{{group}}, {{topic}}": "topk(10, max by (group, topic) (tidelog_group_lag_seconds))"},
        ),
    ],
    "Journals": [
        Panel("Topics at journals", "short", {"journal {{journal}}": "max by (journal) (tidelog_journal_topics)"}),
        Panel(
            "Behind: the oldest record that a table lacks",
            "s",
            {
                "journal {{journal}}": "max by (journal) (tidelog_journal_undrained_seconds)",
                "beyond drain.ms, journal {{journal}}": "max by (journal) (tidelog_journal_overdue_seconds)",
            },
        ),
        Panel(
            "Bytes that tables lack",
            "bytes",
            {"journal {{journal}}": "max by (journal) (tidelog_journal_undrained_bytes)"},
        ),
        Panel(
            "Records that tables lack",
            "short",
            {"journal {{journal}}": "max by (journal) (tidelog_journal_undrained_records)"},
        ),
        Panel(
            "Topics and bytes of a journal's flush",
            "short",
            {"topics": mean("tidelog_journal_flush_topics"), "bytes": mean("tidelog_journal_flush_bytes")},
        ),
        Panel(
            "Drains and moves",
            "cps",
            {
                "drains": rate("tidelog_drains_total"),
                "drains that failed": rate("tidelog_drain_failures_total"),
                "topics moved, to {{to}}": rate("tidelog_topic_moves_total", "to"),
            },
        ),
    ],
    "Queues and delays": [
        Panel(
            "Records of queues",
            "cps",
            {
                "delivered": rate("tidelog_queue_records_delivered_total"),
                "settled": rate("tidelog_queue_records_settled_total"),
                "locks that ended": rate("tidelog_queue_locks_ended_total"),
                "dead letters": rate("tidelog_queue_dead_letters_total"),
            },
        ),
        Panel(
            "Not settled: the ten largest",
            "short",
            {"{{queue}}, {{topic}}": "topk(10, max by (queue, topic) (tidelog_queue_lag))"},
        ),
        Panel(
            "In flight and waiting for their time",
            "short",
            {"in flight": "sum(tidelog_queue_in_flight)", "delayed by a release": "sum(tidelog_queue_delayed)"},
        ),
        Panel(
            "Start offset held back by one record: the ten longest",
            "s",
            {"{{queue}}, {{topic}}": "topk(10, max by (queue, topic) (tidelog_queue_blocked_seconds))"},
        ),
        Panel(
            "Delayed records",
            "cps",
            {
                "taken": rate("tidelog_scheduled_records_total"),
                "published": rate("tidelog_published_delayed_records_total"),
            },
        ),
        Panel("Published late by, p99", "s", {"p99": quantile(0.99, "tidelog_publication_late_seconds")}),
    ],
    "Gateways": [
        Panel("Alive, as each sees it", "short", {"{{instance}}": "tidelog_cluster_gateways"}),
        Panel(
            "Memory",
            "bytes",
            {
                "{{instance}} resident": "process_resident_memory_bytes",
                "{{instance}} Arrow": "tidelog_arrow_bytes",
            },
        ),
        Panel("CPU", "percentunit", {"{{instance}}": "rate(process_cpu_seconds_total[$__rate_interval])"}),
        Panel(
            "Held",
            "bytes",
            {
                "waiting for acknowledgement": "sum(tidelog_buffered_bytes)",
                "tail cache": "sum(tidelog_tail_cache_bytes)",
                "request bodies": "sum(tidelog_request_memory_bytes)",
                "answers": "sum(tidelog_answer_memory_bytes)",
                "manifests": "sum(tidelog_manifest_bytes)",
                "known of {{of}}": "sum by (of) (tidelog_state_bytes)",
            },
        ),
        Panel("Store errors", "cps", {"{{purpose}}": rate("tidelog_store_errors_total", "purpose")}),
        Panel(
            "Checkpoints and open topics",
            "short",
            {
                "checkpoints a minute, {{outcome}}": f"60 * {rate('tidelog_checkpoints_total', 'outcome')}",
                "topics open": "sum(tidelog_topics_loaded)",
            },
        ),
    ],
    "Maintenance": [
        Panel(
            "Age of the last round that succeeded",
            "s",
            {"age": "time() - max(tidelog_maintenance_last_success_timestamp_seconds)"},
        ),
        Panel("Length of a round", "s", {f"p{rank}": quantile(rank / 100, ROUNDS) for rank in (50, 99)}),
        Panel(
            "Flushed segments that wait to be merged",
            "short",
            {"segments": "sum(tidelog_maintenance_waiting_segments)"},
        ),
        Panel(
            "Merged",
            "Bps",
            {
                "read": rate("tidelog_maintenance_read_bytes_total"),
                "written": rate("tidelog_maintenance_written_bytes_total"),
            },
        ),
        Panel("Objects deleted", "cps", {"objects": rate("tidelog_maintenance_deleted_objects_total")}),
        Panel(
            "Failed",
            "cps",
            {
                "topics": rate("tidelog_maintenance_failed_topics_total"),
                "rounds, {{outcome}}": rate("tidelog_maintenance_rounds_total", "outcome"),
            },
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    """Return ``ROWS`` in Grafana's form."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "gridPos": place, "collapsed": False, "panels": []}
        )
        top += 1
        for index, panel in enumerate(row):
            panels.append(_graph(panel, len(panels) + 1, index, top))
        top += PANEL_HEIGHT * -(-len(row) * PANEL_WIDTH // WIDTH)
    return {
        "uid": "tidelog",
        "title": "Tidelog",
        "schemaVersion": 41,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "utc",
        "tags": ["tidelog"],
        "templating": {"list": []},
        "panels": panels,
    }


def _graph(panel: Panel, number: int, index: int, top: int) -> dict[str, Any]:
    across = WIDTH // PANEL_WIDTH
    source = {"type": "prometheus", "uid": "prometheus"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {
            "x": index % across * PANEL_WIDTH,
            "y": top + index // across * PANEL_HEIGHT,
            "w": PANEL_WIDTH,
            "h": PANEL_HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": source, "expr": query, "legendFormat": legend}
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
    }


if __name__ == "__main__":
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(dashboard(), indent=2) + "\n")
