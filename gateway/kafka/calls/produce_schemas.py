"""The schemas of a Produce request's topics: their readers before decoding, and newer ones for records that seem unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from gateway.kafka.call import KafkaCall, yield_to_loop
from gateway.kafka.calls.batch_origin import produce_error
from gateway.kafka.calls.produce_decoding import check_schemas
from gateway.kafka.calls.produce_stages import AdmittedBatch, DecodedBatch, PartitionAnswer
from log_format.errors import TidelogError
from log_format.schemas.columns.codec import RecordReaders
from log_format.topic.config import Subjects

Admitted = list[AdmittedBatch | PartitionAnswer]


def is_typed(parts: Sequence[AdmittedBatch | PartitionAnswer]) -> bool:
    """Return whether a batch is for a topic with schemas."""
    return any(isinstance(part, AdmittedBatch) and part.state.config.subjects.are_set for part in parts)


async def with_readers(call: KafkaCall, parts: Admitted) -> tuple[Admitted, dict[Subjects, RecordReaders]]:
    """Return the batches, those refused whose topic's schemas can't be read, and the readers of the others' schemas."""
    readers: dict[Subjects, RecordReaders] = {}
    errors: dict[Subjects, TidelogError] = {}
    found: Admitted = []
    for part in parts:
        if isinstance(part, AdmittedBatch) and (subjects := part.state.config.subjects).are_set:
            if subjects not in readers and subjects not in errors:
                try:
                    readers[subjects] = await call.engine.schema_readers.of(subjects)
                except TidelogError as error:
                    errors[subjects] = error
            if subjects in errors:
                found.append(PartitionAnswer(part.partition, produce_error(errors[subjects])))
                continue
        found.append(part)
    return found, readers


async def judged_by_newer(
    call: KafkaCall, parts: list[DecodedBatch | PartitionAnswer], known: Mapping[Subjects, RecordReaders]
) -> list[DecodedBatch | PartitionAnswer]:
    """Return the batches, those with records that don't fit judged again if the registry knows more than ``known`` by now."""
    found: list[DecodedBatch | PartitionAnswer] = []
    readers: dict[Subjects, RecordReaders] = {}
    arrival_ms = call.engine.clock.monotonic_ms()
    for number, part in enumerate(parts, 1):
        if isinstance(part, DecodedBatch) and part.misfits:
            subjects = part.admitted.state.config.subjects
            try:
                reader = await call.engine.schema_readers.newer(subjects, part.misfits, known[subjects], arrival_ms)
            except TidelogError as error:
                found.append(PartitionAnswer(part.admitted.partition, produce_error(error)))
                continue
            if reader is not None:
                readers[subjects] = reader
                part = part.unjudged()  # noqa: PLW2901
        found.append(part)
        await yield_to_loop(number)
    if not readers:
        return found
    return await asyncio.get_running_loop().run_in_executor(call.gateway.codec_pool, check_schemas, found, readers)
