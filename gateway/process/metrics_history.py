"""Assembly of the alarms and of the history of metrics."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from pathlib import Path

from gateway.cluster.ownership import Ownership
from gateway.engine.own_topic import OwnTopic
from gateway.log_engine import LogEngine
from gateway.metrics_history.reading import HistoryReader, MetricsHistory
from gateway.metrics_history.recorder import MetricsRecorder
from gateway.metrics_history.topic import CONFIG, PARTITION_COUNT
from gateway.monitoring.alarm_watch import LAG_AGE_MS_MAX, AlarmWatch, Tell
from gateway.monitoring.maintenance_watch import MaintenanceWatch
from gateway.settings.settings import Settings, SettingsError
from gateway.telemetry.metrics import Metrics
from log_format.layout import METRICS_TOPIC

TOPICS_PER_STEP = 100
"""Number of topics that are summed up before other requests get their turn."""


def make_alarms(settings: Settings, metrics: Metrics, engine: LogEngine, maintenance: MaintenanceWatch) -> AlarmWatch:
    """Return the watch over this gateway's alarms. Raise ``SettingsError`` for a file without the URL of a webhook."""

    async def measure() -> None:
        await maintenance.look()
        await engine.measure(LAG_AGE_MS_MAX)

    return AlarmWatch(metrics.registry, engine.clock, measure, _webhook(settings))


def _webhook(settings: Settings) -> Tell | None:
    if settings.alarm_webhook_file is None:
        return None
    # Imported here, since a gateway without a webhook does not need urllib3.
    from gateway.monitoring.alarm_webhook import AlarmWebhook, read_webhook_url  # noqa: PLC0415

    path = Path(settings.alarm_webhook_file)
    try:
        read_webhook_url(path)
    except ValueError as error:
        raise SettingsError(f"TIDELOG_ALARM_WEBHOOK_FILE: {error}") from error
    return AlarmWebhook(path, gateway_id=settings.gateway_id, gateway_url=settings.url).tell


def make_history(
    settings: Settings, engine: LogEngine, ownership: Ownership, metrics: Metrics, pool: Executor
) -> MetricsHistory:
    """Return the history of metrics."""
    recorder = None if settings.metrics_history == "off" else _recorder(settings, engine, ownership, metrics)
    count_own = _ignore if recorder is None else recorder.count_own_reads
    reader = HistoryReader(engine.topics, engine.reader, clock=engine.clock, pool=pool, count_own=count_own)
    return MetricsHistory(recorder, reader)


def _recorder(settings: Settings, engine: LogEngine, ownership: Ownership, metrics: Metrics) -> MetricsRecorder:
    async def stored_bytes() -> int:
        total = 0
        for number, topic in enumerate(tuple(engine.topics)):
            if number % TOPICS_PER_STEP == 0:
                await asyncio.sleep(0)
            state = topic.log.state
            if state.exists and ownership.of_topic(topic.name) is None:
                total += sum(map(state.manifest.size_bytes, range(state.partition_count)))
        return total

    topic = OwnTopic(
        *(METRICS_TOPIC, engine.topics, engine.administration, engine.producer_ids),
        clock=engine.clock,
        partition_count=PARTITION_COUNT,
        config=CONFIG,
    )
    return MetricsRecorder(
        settings.gateway_id,
        topic,
        metrics.registry,
        clock=engine.clock,
        measure=engine.measure,
        stored_bytes=stored_bytes,
    )


def _ignore(count: int) -> None:
    del count
