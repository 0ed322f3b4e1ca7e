"""The commands ``tidelog bench produce`` and ``tidelog bench consume``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.admin import Admin
from tidelog.bodies.encode import Compression
from tidelog.cli.bench.measured import PERCENTILES, Measured
from tidelog.cli.bench.run import measure_consume, measure_produce
from tidelog.cli.sources.rows import require_arrow
from tidelog.cli.terminal.console import (
    STREAM_TIMEOUT_S,
    JsonOption,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    output,
    print_json,
    progress,
    reporting,
)
from tidelog.cli.terminal.durations import in_seconds
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.names import TopicArgument
from tidelog.cli.terminal.positions import PositionSpec, resolve_range

app = Commands(help="Measure a gateway's throughput and latency. Each measurement ends by itself.")

RecordsOption = Annotated[int, typer.Option("--records", "-n", min=1, help="Stop after this many records.")]
SecondsOption = Annotated[
    float,
    typer.Option(
        "--seconds",
        metavar="DURATION",
        parser=in_seconds(least=0.1),
        help="Stop after this time, whatever was measured.",
    ),
]
TablesOption = Annotated[bool, typer.Option("--tables", help="Use Arrow tables instead of single records.")]


@app.command()
def produce(
    topic: TopicArgument,
    *,
    records: RecordsOption = 100_000,
    size: Annotated[int, typer.Option(min=0, max=1_000_000, help="Size of each random value in bytes.")] = 100,
    seconds: SecondsOption = 60.0,
    tables: TablesOption = False,
    compression: Annotated[Compression | None, typer.Option(help="Compression of requests. Default: none.")] = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Send random records to a topic, and measure until all are acknowledged. The records stay there.

    \b
    Examples:
      tidelog bench produce scratch --records 1000 --size 100
      tidelog bench produce scratch --records 1000 --tables --compression zstd --json
    """
    with reporting(as_json=as_json), progress(f"to {topic}", shown=not as_json) as bar:
        if tables:
            require_arrow("--tables")
        task = bar.add_task("records", total=records)
        with Admin(url, token_file=token_file, timeout_ms=timeout * 1000) as admin:
            admin.describe_topic(topic)
        measured = measure_produce(
            topic,
            url=url,
            token_file=token_file,
            record_count=records,
            size_bytes=size,
            seconds_max=seconds,
            tables=tables,
            compression=compression,
            timeout_ms=timeout * 1000,
            show=lambda count: bar.update(task, completed=count),
        )
    _show(measured, as_json)


@app.command()
def consume(
    topic: TopicArgument,
    *,
    records: RecordsOption = 1_000_000,
    seconds: SecondsOption = 60.0,
    tables: TablesOption = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Read a topic from its beginning to its current end, and measure.

    \b
    Examples:
      tidelog bench consume scratch
      tidelog bench consume scratch --records 1000 --tables --json
    """
    with reporting(as_json=as_json), progress(f"from {topic}", shown=not as_json) as bar:
        if tables:
            require_arrow("--tables")
        task = bar.add_task("records", total=None)
        with Admin(url, token_file=token_file, timeout_ms=timeout * 1000) as admin:
            range_ = resolve_range(admin, topic, PositionSpec(word="beginning"), None)
        measured = measure_consume(
            range_.begin,
            range_.end,
            url=url,
            token_file=token_file,
            record_count=records,
            seconds_max=seconds,
            tables=tables,
            timeout_ms=timeout * 1000,
            show=lambda count: bar.update(task, completed=count),
        )
    _show(measured, as_json)


def _show(measured: Measured, as_json: bool) -> None:
    if as_json:
        print_json(measured.as_json())
        return
    console = output()
    console.print(f"records  {measured.record_count:,} in {measured.elapsed_s:,.2f} s", markup=False)
    console.print(f"rate     {measured.records_per_second:,.0f} records/s, {measured.megabytes_per_second:,.2f} MB/s")
    found = [(percent, measured.percentile_ms(percent)) for percent in PERCENTILES]
    shown = ", ".join(f"p{percent} {value:,.1f} ms" for percent, value in found if value is not None)
    console.print(f"latency  {shown or 'none'} ({measured.latency_of})", markup=False)
