"""Files that grow and are rotated in every usual way, and the check of a topic that collected them.

Every line is equally long: file, generation of the file, number of the line in it, and padding. So millions of lines are
checked as one array.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

LINE_BYTES = 120
_PADDING = b" the rest of a line of a log, as long as such lines are on average in the access log of a web server"
_DIGITS = {"file": (0, 3), "generation": (4, 9), "number": (10, 19)}


def make_lines(file: int, generation: int, first: int, count: int) -> bytes:
    """Return ``count`` lines of ``LINE_BYTES`` with their line breaks."""
    return b"".join(
        (b"%03d %05d %09d" % (file, generation, number) + _PADDING)[: LINE_BYTES - 1].ljust(LINE_BYTES - 1) + b"\n"
        for number in range(first, first + count)
    )


class RotatingLogs:
    """``count`` files in a directory, written in turn, rotated at random by renaming, copying or compressing."""

    def __init__(self, directory: Path, count: int, rng: random.Random) -> None:
        self.written: Counter[tuple[int, int]] = Counter()
        """The number of lines in each generation of each file."""
        self.rotations: Counter[str] = Counter()
        self._directory = directory
        self._count = count
        self._rng = rng
        self._generations = [0] * count
        self._numbers = [0] * count

    def path(self, file: int) -> Path:
        """Return a file's name."""
        return self._directory / f"service-{file:03}.log"

    def write(self, total_bytes: int, rotate_at_bytes: int, bytes_per_second: float, stop: threading.Event) -> None:
        """Write ``total_bytes`` to all files together, at most ``bytes_per_second``. ``stop`` ends it early."""
        left = total_bytes // LINE_BYTES
        while left > 0 and not stop.is_set():
            file = self._rng.randrange(self._count)
            count = min(left, self._rng.randrange(1, 4_000))
            left -= count
            with self.path(file).open("ab", buffering=0) as log:
                data = make_lines(file, self._generations[file], self._numbers[file], count)
                # In two pieces, so that the reader meets lines without their ends.
                cut = self._rng.randrange(len(data))
                log.write(data[:cut])
                log.write(data[cut:])
            self._numbers[file] += count
            self.written[file, self._generations[file]] += count
            if self._numbers[file] * LINE_BYTES >= rotate_at_bytes:
                self._rotate(file)
            stop.wait(count * LINE_BYTES / bytes_per_second)

    def _rotate(self, file: int) -> None:
        path = self.path(file)
        self._shift(path)
        first = path.with_name(path.name + ".1")
        kind = self._rng.choice(["rename and create", "copy and truncate", "rename, then compress"])
        if kind == "copy and truncate":
            shutil.copy(path, first)
            os.truncate(path, 0)
        else:
            path.rename(first)
        if kind == "rename, then compress":
            with gzip.open(f"{first}.gz", "wb", compresslevel=1) as packed:
                packed.write(first.read_bytes())
            first.unlink()
        self.rotations[kind] += 1
        self._generations[file] += 1
        self._numbers[file] = 0

    def _shift(self, path: Path) -> None:
        rotated = [other for other in path.parent.glob(f"{path.name}.*") if other.suffix != ".new"]
        for other in sorted(rotated, key=_number, reverse=True):
            suffix = ".gz" if other.suffix == ".gz" else ""
            other.rename(path.with_name(f"{path.name}.{_number(other) + 1}{suffix}"))


def _number(path: Path) -> int:
    return int(path.name.removesuffix(".gz").rpartition(".")[2])


def problems(values: list[pa.Array], written: Counter[tuple[int, int]]) -> list[str]:
    """Return what is wrong with each partition's values, in order: lines missing, repeated, out of order, or changed."""
    found: list[str] = []
    counted: Counter[tuple[int, int]] = Counter()
    for partition, column in enumerate(values):
        if not len(column):
            continue
        lengths = np.diff(np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1])
        if (lengths != LINE_BYTES - 1).any():
            found.append(f"partition {partition}: {(lengths != LINE_BYTES - 1).sum()} values are no lines")
            continue
        first = np.frombuffer(column.buffers()[1], np.int32)[column.offset]
        rows = np.frombuffer(column.buffers()[2], np.uint8)[first : first + len(column) * (LINE_BYTES - 1)]
        fields = {name: _numbers_at(rows.reshape(-1, LINE_BYTES - 1), *place) for name, place in _DIGITS.items()}
        order = np.lexsort((np.arange(len(column)), fields["generation"], fields["file"]))
        file, generation, number = (fields[name][order] for name in _DIGITS)
        starts = np.flatnonzero(np.r_[True, (np.diff(file) != 0) | (np.diff(generation) != 0)])
        expected = np.arange(len(number)) - np.repeat(starts, np.diff(np.r_[starts, len(number)]))
        wrong = np.flatnonzero(number != expected)
        if len(wrong):
            at = wrong[0]
            found.append(
                f"partition {partition}: {len(wrong)} lines missing, doubled or out of order, the first in file {file[at]}, "
                f"generation {generation[at]}: number {number[at]} where {expected[at]} is next"
            )
        for start, end in zip(starts, np.r_[starts[1:], len(number)], strict=True):
            counted[int(file[start]), int(generation[start])] += int(end - start)
    differing = {name for name in counted | written if counted[name] != written[name]}
    found += [f"file {name}: {written[name]} lines written, {counted[name]} stored" for name in sorted(differing)[:20]]
    return found


def _numbers_at(rows: np.ndarray, start: int, end: int) -> np.ndarray:
    return (rows[:, start:end].astype(np.int64) - ord("0")) @ (10 ** np.arange(end - start)[::-1])
