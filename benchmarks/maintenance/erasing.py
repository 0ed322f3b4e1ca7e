"""``python -m benchmarks erase``: what maintenance reads to erase keys in a large archive, and what the requests cost in S3.

The archive's segments are simulated: the checkpoint names each, and the store answers requests for them with one of a few real
segments, which maintenance's own code has written. A few of them have a record of the first key that is asked for. Everything
else is as in a topic: the request, the pass, the commits, the rewritten segments.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.harness.report import Table, printed
from benchmarks.harness.topic import WrittenTopic, new_id, records_of
from benchmarks.maintenance.archive import enlarge
from compaction.job import Job
from compaction.workers import LocalWorkers
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import named_adds
from log_format.clock import SystemClock
from log_format.cluster.identity import load_cluster
from log_format.delta.actions import Add
from log_format.records.erasing import Matcher, digest_of
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.laid_out import LaidOutWriter
from log_format.segments.run import SegmentRef
from log_format.segments.segment import EncodedSegment
from log_format.segments.writer import SegmentWriter
from log_format.stores.memory import MemoryStore
from log_format.topic.archive import archived
from log_format.topic.archiving import ArchiveExpired
from log_format.topic.changes import DeleteRecords
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure, hide_hash
from log_format.topic.segment_tags import Layout, Rewritten, add_segment
from tidelog.cli.cost.prices import request_dollars

TOPIC: Final = "t"
VALUE_BYTES: Final = 80
"""Random bytes, which no codec makes smaller."""
KEYS: Final = 10**9
"""Number of keys from which those of records are drawn: nearly all keys of a segment are different, the dearest case."""
FIRST: Final = b"user-of-whom-there-is-something"
_COMPACTED: Final = f"topics/{TOPIC}/{layout.COMPACTED}"
MANY_KEYS_SHARE: Final = 25
"""A request with many keys is measured in an archive of so many times fewer segments."""
REWRITTEN_MEBIBYTES_MAX: Final = 256
"""Most bytes of segments that have the first key."""
TEBIBYTE: Final = 2**40


class SimulatedStore(MemoryStore):
    """A store that has a few segments under many names, and counts the requests for segments, and their bytes.

    ``kinds``: bytes of the segments. The last one is that of the first ``having`` names, the others take turns.
    """

    def __init__(self, kinds: Sequence[bytes], having: int) -> None:
        super().__init__(clock=SystemClock())
        self._kinds = kinds
        self._having = having
        self.requests: Counter[str] = Counter()
        """Requests for segments by their kind, and how many of the GETs were for the segments with the first key."""
        self.read_bytes = 0

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Return an object; of a simulated segment the bytes of its kind."""
        data = self._simulated(key)
        return super().get(key, bytes_max=bytes_max) if data is None else self._counted(key, data)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return a part of an object."""
        data = self._simulated(key)
        return super().get_range(key, start, end) if data is None else self._counted(key, data[start:end])

    def put(self, key: str, data: bytes) -> None:
        """Put an object."""
        self.requests["PUT"] += key.startswith(_COMPACTED)
        super().put(key, data)

    def _counted(self, key: str, data: bytes) -> bytes:
        self.requests["GET"] += 1
        self.requests["GET of having"] += _number(key) < self._having
        self.read_bytes += len(data)
        return data

    def _simulated(self, key: str) -> bytes | None:
        if not key.startswith(_COMPACTED) or len(key) != len(_COMPACTED) + len(_name(0)):
            return None
        return self._kinds[kind_of(_number(key), len(self._kinds), self._having)]


def _name(number: int) -> str:
    return f"{number:032x}.parquet"


def _number(key: str) -> int:
    return int(key.removeprefix(_COMPACTED).removesuffix(".parquet"), 16)


def kind_of(number: int, kind_count: int, having: int) -> int:
    """Return the index of the segment that stands for the one with this number."""
    return kind_count - 1 if number < having else number % (kind_count - 1)


def main(arguments: Sequence[str]) -> int:
    """Measure, and print. Return 0."""
    given = _parser().parse_args(arguments)
    with printed(as_json=given.json):
        table = Table(
            f"Erasing in an archive of {given.segments:,} simulated segments",
            ["", *map(str, _cases(given))],
        )
        found = [_measure(case, given) for case in _cases(given)]
        for name in found[0]:
            table.add(name, *(column[name] for column in found))
    if given.json:
        print(json.dumps(table.as_json(), indent=1))
    return 0


class _Case(NamedTuple):
    """A request for so many keys, in segments of this size, or files of ``table.cluster.by``."""

    key_count: int
    mebibytes: int
    is_laid_out: bool = False

    def __str__(self) -> str:
        keys = "1 key" if self.key_count == 1 else f"{self.key_count:,} keys"
        return f"{keys}, {'laid out files of ' if self.is_laid_out else ''}{self.mebibytes} MiB"


def _cases(given: argparse.Namespace) -> list[_Case]:
    large = [_Case(given.keys, given.large_mebibytes, is_laid_out) for is_laid_out in (False, True)]
    return [_Case(1, given.mebibytes), _Case(given.keys, given.mebibytes), *large]


def _measure(case: _Case, given: argparse.Namespace) -> dict[str, str]:
    """Return the figures of one request. Many keys are looked for in a part of the archive, which takes long enough."""
    key_count, mebibytes, is_laid_out = case
    share = 1 if key_count == 1 else MANY_KEYS_SHARE
    having = min(given.having, REWRITTEN_MEBIBYTES_MAX // mebibytes)
    count = max(having, given.segments * given.mebibytes // mebibytes // share)
    writer = LaidOutWriter if is_laid_out else SegmentWriter
    kind_count = given.kinds if mebibytes == given.mebibytes else 3
    kinds = [_segment(writer(compression="zstd"), number, mebibytes) for number in range(kind_count)]
    kinds.append(_segment(writer(compression="zstd"), len(kinds), mebibytes, FIRST))
    store = SimulatedStore([kind.data for kind in kinds], having)
    topic = _fill(store, kinds, count, having, Layout("r", 1, ("timestamp",)) if is_laid_out else None)
    job, events = _job(store)
    _ask(store, topic, [FIRST, *(b"absent-%d" % number for number in range(key_count - 1))])
    started = time.perf_counter()
    totals = job.run_round(collect=False)
    took_s = time.perf_counter() - started
    assert totals.failed_topics == 0, events
    read = events["erased"]
    total_bytes = sum(len(kinds[kind_of(number, len(kinds), having)].data) for number in range(count))
    assert read["read_filtered"] == count
    assert totals.segments_in == having, totals
    looking = (store.requests["GET"] - store.requests["GET of having"]) * TEBIBYTE / total_bytes
    rewriting = Counter(GET=store.requests["GET of having"], PUT=store.requests["PUT"])
    return {
        "segments": f"{count:,}, {total_bytes / 2**30:.1f} GiB",
        "of them with something to erase": f"{having}",
        "read as a whole": f"{read['read_whole']:,} ({read['read_whole'] / count:.3%})",
        "bytes read of filters and footers": _share(read["read_filter_bytes"], total_bytes),
        "bytes read of row groups with a match in the filter": _share(read["read_row_group_bytes"], total_bytes),
        "GETs of segments": f"{store.requests['GET']:,}",
        "bytes of these GETs": _share(store.read_bytes, total_bytes),
        "PUTs of segments": f"{store.requests['PUT']:,}",
        "dollars for these requests": f"{_dollars(store.requests):.4f}",
        "looking through 1 TiB: GETs, about": f"{round(looking, -2):,.0f}",
        "looking through 1 TiB: dollars": f"{looking * request_dollars('GET'):.2f}",
        "rewriting 1,000 segments: dollars": f"{1_000 * _dollars(rewriting) / having:.3f}",
        "seconds of one process": f"{took_s:.0f}",
        "largest resident size of the process so far, MiB": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}",
    }


def _share(part: int, whole: int) -> str:
    return f"{part / 2**20:,.0f} MiB ({part / whole:.2%})"


def _dollars(requests: Counter[str]) -> float:
    return sum(requests[kind] * request_dollars(kind) for kind in ("GET", "PUT"))


def _segment(writer: SegmentWriter, seed: int, mebibytes: int, *keys: bytes) -> EncodedSegment:
    """Return a segment of about this size, with one record of each of these keys, as maintenance writes it."""
    random = np.random.default_rng(seed)
    offset = 0
    while writer.size_bytes + writer.waiting_bytes < mebibytes * 2**20:
        count = 12_000
        drawn = [b"user-%d" % number for number in random.integers(0, KEYS, count).tolist()]
        drawn[: len(keys)] = keys if offset == 0 else drawn[: len(keys)]
        values = np.frombuffer(random.bytes(count * VALUE_BYTES), np.dtype((np.void, VALUE_BYTES)))
        columns = {
            "partition": np.zeros(count, np.int32),
            "offset": np.arange(offset, offset + count),
            "timestamp": pa.array(np.full(count, 1_000_000), pa.int64()).cast(RECORD_SCHEMA.field("timestamp").type),
            "key": pa.array(drawn, pa.binary()),
            "value": pa.array([bytes(value) for value in values], pa.binary()),
            "headers": pa.nulls(count, RECORD_SCHEMA.field("headers").type),
        }
        writer.add(pa.table(columns, schema=RECORD_SCHEMA))
        offset += count
    found = writer.finish()
    assert found is not None
    assert found.filters is not None, "the installed pyarrow writes no filters"
    return found


def _fill(
    store: SimulatedStore, kinds: Sequence[EncodedSegment], count: int, having: int, order: Layout | None
) -> WrittenTopic:
    """Make the topic, whose archive has ``count`` segments."""
    topic = WrittenTopic(store, TOPIC, partitions=1, config={"retention.ms": -1, "table.retention.ms": -1})
    end = max(kind.runs[0].end_offset for kind in kinds)
    for records in (end, 1):
        state = topic.append(records_of([b""] * records, [b"k"] * records), np.zeros(records, np.int32), 1)
    topic.alter(DeleteRecords(before={0: end}))
    now_ms = time.time_ns() // 1_000_000
    table = checkpoint.reconcile_log(store, TOPIC, topic.log.state.version, now_ms)
    assert table is not None
    first = state.manifest.segments()[0].path
    topic.alter(ArchiveExpired(topic_id=topic.log.state.existing_id, adds=named_adds([table], [first])))
    version = topic.log.state.version
    checkpoint.write_checkpoint(store, TOPIC, version, now_ms)
    enlarge(store, layout.topic_root(TOPIC), version, _adds(kinds, count, having, order))
    return topic


def _adds(kinds: Sequence[EncodedSegment], count: int, having: int, order: Layout | None) -> Iterator[Add]:
    for number in range(count):
        kind = kinds[kind_of(number, len(kinds), having)]
        path = f"{layout.COMPACTED}{_name(number)}"
        segment = SegmentRef(path, len(kind.data), kind.footer_start, kind.ref(path).footer_crc32)
        add = add_segment(
            segment,
            kind.runs,
            modification_time_ms=number,
            data_change=False,
            rewritten=Rewritten(1),
            filters=kind.filters,
            layout=order,
        )
        yield archived(add)


def _ask(store: Any, topic: WrittenTopic, keys: Sequence[bytes]) -> None:
    """Request to erase what these keys have."""
    secret = load_cluster(store, new_id).producer_key
    wanted = tuple(Matcher(digest_of(secret, key)) for key in keys)
    hidden = tuple(hide_hash(secret, key) for key in keys)
    erasure = Erasure(erasure_id="e", requested_ms=0, wanted=wanted, hidden_hashes=hidden)
    topic.alter(RequestErasure(topic_id=topic.log.refresh().existing_id, erasure=erasure))


def _job(store: Any) -> tuple[Job, dict[str, dict[str, Any]]]:
    """Return maintenance that only erases, and the last event of each name."""
    events: dict[str, dict[str, Any]] = {}

    class Events:
        def event(self, event: str, **fields: Any) -> None:
            events[event] = fields

    job = Job(store=store, workers=LocalWorkers(store), clock=SystemClock(), report=Events(), erases_only=True)
    return job, events


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks erase", description=__doc__)
    parser.add_argument("--segments", type=int, default=100_000, help="in the archive (default 100,000)")
    parser.add_argument("--mebibytes", type=int, default=1, help="size of a segment (default 1)")
    parser.add_argument("--large-mebibytes", type=int, default=64, help="size in the last two columns (default 64)")
    parser.add_argument("--keys", type=int, default=1_000, help="of the second request (default 1,000)")
    parser.add_argument("--kinds", type=int, default=100, help="number of real segments (default 100)")
    parser.add_argument("--having", type=int, default=20, help="segments with the first key (default 20)")
    parser.add_argument("--json", action="store_true", help="the table as JSON on standard output")
    return parser
