"""Conversion of a query's start and end positions to tasks, for batch queries and micro-batches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from log_format.segments.reader import OffsetRange
from log_format.topic.state import TopicState
from spark_pipeline.schemas import CREATE_TIME, LOG_APPEND_TIME
from spark_pipeline.source.loss import DataLoss
from spark_pipeline.source.offsets import Positions
from spark_pipeline.source.options import SourceOptions
from spark_pipeline.source.plan import SegmentPart, distribute_parts, find_parts, sort_by_object
from spark_pipeline.source.task import ReadTask
from spark_pipeline.source.topics import TopicsView

PARALLELISM_VARIABLE: Final = "TIDELOG_SPARK_PARALLELISM"
"""Environment variable of Spark's Python processes: the session's number of concurrent tasks, as found by ``register``."""


def plan_tasks(options: SourceOptions, view: TopicsView, start: Positions, end: Positions) -> list[ReadTask]:
    """Return the tasks that read ``[start, end)`` of every partition of ``end``.

    ``start`` has every partition of ``end``. Raises ``DataLoss`` when the view ends before ``end``, if the query is to fail
    then.
    """
    parts: list[SegmentPart] = []
    for topic, ends in sorted(end.items()):
        state = view.states[topic]
        _check_reached(options, state, ends)
        ranges = [OffsetRange(partition, start[topic][partition], offset) for partition, offset in sorted(ends.items())]
        parts += find_parts(state, timestamp_type(state), ranges)
    tasks = distribute_parts(
        sort_by_object(parts),
        parallelism=parallelism(os.environ),
        tasks_min=options.tasks_min,
        rows_per_task_max=options.rows_per_task_max,
    )
    return [ReadTask(task, options.record_filter) for task in tasks]


def timestamp_type(state: TopicState) -> int:
    """Return the topic's ``timestampType``, in the Kafka source's form."""
    is_append_time = state.config.choice("message.timestamp.type") == "LogAppendTime"
    return LOG_APPEND_TIME if is_append_time else CREATE_TIME


def parallelism(environment: Mapping[str, str]) -> int:
    """Return the number of concurrent tasks found by ``register``, else the machine's cores."""
    text = environment.get(PARALLELISM_VARIABLE, "")
    return max(1, int(text)) if text.isdecimal() else os.cpu_count() or 1


def _check_reached(options: SourceOptions, state: TopicState, ends: Mapping[int, int]) -> None:
    for partition, offset in ends.items():
        if offset > state.high_watermark(partition) and options.fail_on_data_loss:
            raise DataLoss(
                f"{state.topic}/{partition} ends at {state.high_watermark(partition)}, before {offset} where the query is to "
                "end. To read what is there, set the option failOnDataLoss to false."
            )
