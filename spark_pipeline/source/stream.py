"""``spark.readStream.format("tidelog")``: micro-batches, starting at the checkpoint.

1. A micro-batch costs the driver one look per topic (one request each if nothing changed), whatever the log's length.
2. A micro-batch's records follow from its two positions and the log, so a repeated one reads the same.
3. Partitions, and topics of a pattern, that appear while the query runs are read from their first record.
4. With Trigger.AvailableNow nothing is read that was committed after the query began.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark_pipeline.source.limit import limit_offsets
from spark_pipeline.source.loss import readable_starts
from spark_pipeline.source.offsets import Positions, TopicIds, count_offsets, from_json, to_json
from spark_pipeline.source.options import SourceOptions
from spark_pipeline.source.planning import plan_tasks
from spark_pipeline.source.positions import resolve_starting_positions
from spark_pipeline.source.reading import part_reader
from spark_pipeline.source.task import ReadTask, read_task
from spark_pipeline.source.topics import Topics, TopicsView
from spark_pipeline.store_access import cached_store

if TYPE_CHECKING:
    from spark_pipeline.source.progress import GroupProgress

_Stored = dict[str, dict[str, Any]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader that lives as long as the query in a process on the driver; it is pickled to executors before it has read any
    log."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._topics: Topics | None = None
        self._view: TopicsView | None = None
        self._target: TopicsView | None = None
        """Topics at the query's beginning, whose ends are the query's end; only with Trigger.AvailableNow."""
        self._progress: GroupProgress | None = None
        self._noted: Positions | None = None
        self._batch_at: float | None = None
        """Monotonic seconds at which the last batch was released, for ``minOffsetsPerTrigger``."""

    def initialOffset(self) -> _Stored:  # noqa: N802 - Spark's names
        """Return where a query without a checkpoint begins. Raises as ``resolve_starting_positions``, ``Topics.look``."""
        view = self._look()
        return to_json(resolve_starting_positions(self._options, view, part_reader(self._options.store)), view.ids())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the bound of a micro-batch given by the options."""
        if self._options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.offsets_per_trigger_min is not None:
            return ReadMinRows(self._options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Store the topics' current ends as the query's end."""
        self._target = self._look()

    def latestOffset(self, start: _Stored, limit: ReadLimit) -> _Stored:  # noqa: N802
        """Return where the next micro-batch ends; ``start`` for none. Raises ``DataLoss`` and as ``Topics.look``."""
        began, began_ids = from_json(start)
        view = self._view if self._target is not None and self._view is not None else self._look()
        goal = view if self._target is None else self._target
        end = goal.ends()
        self._note(_positions_of_ids(began, began_ids, view), view)
        begin = readable_starts(began, view, fail=self._options.fail_on_data_loss, ids=began_ids)
        if self._target is not None:
            end = {
                topic: {partition: max(offset, begin[topic][partition]) for partition, offset in of.items()}
                for topic, of in end.items()
            }
        elif not isinstance(limit, ReadAllAvailable) and self._waits(count_offsets(begin, end)):
            return start
        if isinstance(limit, ReadMaxRows):
            end = limit_offsets(begin, end, limit.max_rows)
        stored = to_json(end, goal.ids())
        if self._progress is not None and stored == start:
            self._progress.settle()  # the query is idle, and Spark ends this process abruptly with the query
        return stored

    def reportLatestOffset(self) -> _Stored | None:  # noqa: N802
        """Return the topics' ends at the last look, for the query's progress report."""
        return None if self._view is None else to_json(self._view.ends(), self._view.ids())

    def partitions(self, start: _Stored, end: _Stored) -> list[ReadTask]:
        """Return the tasks of a micro-batch. Raises ``DataLoss`` and as ``Topics.look``."""
        goal, goal_ids = from_json(end)
        began, began_ids = from_json(start)
        view = self._view
        if view is None or not _reaches(view, goal) or _positions_of_ids(goal, goal_ids, view) != goal:
            view = self._look()
        begin = readable_starts(began, view, fail=self._options.fail_on_data_loss, ids=began_ids)
        there = _positions_of_ids(goal, goal_ids, view)
        return plan_tasks(self._options, view, begin, there)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's records, as ``read_task``."""
        options = self._options
        return read_task(partition, options.store, self._schema, fail_on_data_loss=options.fail_on_data_loss)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: no state is kept for a micro-batch. (Spark calls this when the next one begins, too late for
        ``groupId``.)"""

    def stop(self) -> None:
        """End the background threads."""
        if self._progress is not None:
            self._progress.close()
        if self._topics is not None:
            self._topics.close()

    def _look(self) -> TopicsView:
        if self._topics is None:
            self._topics = Topics(cached_store(self._options.store), self._options.subscription)
        self._view = self._topics.look()
        return self._view

    def _note(self, position: Positions, view: TopicsView) -> None:
        """Commit the query's position for the group, if ``groupId`` is given.

        All earlier batches have ended when Spark asks for the next one.
        """
        if self._options.group is None or position == self._noted:
            return
        if self._progress is None:
            # The imports for committing would be a third of a reading process's imports.
            from spark_pipeline.source.progress import GroupProgress  # noqa: PLC0415

            self._progress = GroupProgress(cached_store(self._options.store), self._options.group)
        self._progress.note(position, view)
        self._noted = position

    def _waits(self, available: int) -> bool:
        """Return whether fewer than ``minOffsetsPerTrigger`` are available, and ``maxTriggerDelay`` has not passed."""
        minimum = self._options.offsets_per_trigger_min
        now = time.monotonic()
        is_late = self._batch_at is None or (now - self._batch_at) * 1000 >= self._options.trigger_delay_ms_max
        if minimum is None or is_late or available >= minimum:
            self._batch_at = now
            return False
        return True


def _positions_of_ids(positions: Positions, ids: TopicIds, view: TopicsView) -> Positions:
    """Return the positions in topics of ``view``, without those of a deleted topic of the same name."""
    now = view.ids()
    return {topic: of for topic, of in positions.items() if topic in now and ids.get(topic, now[topic]) == now[topic]}


def _reaches(view: TopicsView, goal: Positions) -> bool:
    ends = view.ends()
    return all(
        offset <= ends.get(topic, {}).get(partition, -1)
        for topic, of in goal.items()
        for partition, offset in of.items()
    )
