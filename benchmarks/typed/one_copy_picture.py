"""The figures of ``one_copy``, what they cost in dollars, and their picture: two roads from a producer to the same SQL."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final

from infra import cost

LOAD: Final = cost.Load(mib_per_second=10, topics=10, broker="m5.xlarge")
"""The load of the dollars, one of docs/cost.md's."""
REPLICAS: Final = 3
PUTS_A_BATCH: Final = 4
"""A micro-batch of a topic writes a file, a commit, and two files of its checkpoint."""
JOB_MACHINE: Final = "m5.xlarge, hour"
"""The machine of the job: one, whatever it is given to do."""
THRIFTY_FLUSH_MS: Final = 1_000
SQL: Final = """select {0}city, count(*) as orders,
       round(sum({0}amount), 2) as revenue
from {1} where {0}amount > 100 and {0}is_paid
group by {0}city
order by revenue desc"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured. Ratios are to the bytes of the values that were sent; lags are p50 and p99."""

    records: int
    value_bytes: float
    kafka_lag_ms: list[float]
    tidelog_lag_ms: list[float]
    log_ratio: float
    """Bytes of one replica of the Kafka topic."""
    copy_ratio: float
    """Bytes of the job's table."""
    topic_ratio: float
    """Bytes of the typed topic's table."""
    batches_a_second: float
    """Micro-batches of the job while single records came."""
    kafka_query_ms: float
    tidelog_query_ms: float
    measured: str

    @property
    def stored(self) -> tuple[float, float]:
        """Bytes stored for a byte that was sent."""
        return REPLICAS * self.log_ratio + self.copy_ratio, self.topic_ratio

    @property
    def moved(self) -> tuple[float, float]:
        """Bytes over the network for a byte that was sent: into the log and to its replicas, to the job, into the store."""
        return (1 + REPLICAS - 1 + 1) * self.log_ratio + self.copy_ratio, self.log_ratio + self.topic_ratio

    @property
    def kafka_dollars(self) -> float:
        """Dollars a month of the log and the job."""
        log = cost.kafka(LOAD)
        log["storage"] *= self.log_ratio
        batches = self.batches_a_second * LOAD.topics * cost.SECONDS
        copy = cost.stored_gib(LOAD) * self.copy_ratio * cost.PRICES["S3 Standard, GB-month"]
        puts = batches * PUTS_A_BATCH / 1000 * cost.PRICES["S3 PUT, 1,000"]
        return sum(log.values()) + copy + puts + cost.HOURS * cost.PRICES[JOB_MACHINE]

    def tidelog_dollars(self, flush_ms: int = cost.FLUSH_MS, *, shared: bool = False, in_zones: bool = False) -> float:
        """Dollars a month of the topics, with their own commits or ``shared`` ones, those of a journal."""
        ours = cost.tidelog(LOAD, flush_ms, shared=shared, in_zones=in_zones)
        ours["storage"] *= self.topic_ratio
        return sum(ours.values())

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the figures as rows of text."""
        theirs = f"{self.kafka_dollars:,.0f}"
        thrifty = self.tidelog_dollars(THRIFTY_FLUSH_MS, in_zones=True)
        shared = self.tidelog_dollars(shared=True, in_zones=True)
        return [
            ("acknowledgement to typed row, p50", _time(self.kafka_lag_ms[0]), _time(self.tidelog_lag_ms[0])),
            ("the same, p99", _time(self.kafka_lag_ms[1]), _time(self.tidelog_lag_ms[1])),
            ("bytes stored for a byte sent", f"{self.stored[0]:.2f}", f"{self.stored[1]:.2f}"),
            ("bytes moved for a byte sent", f"{self.moved[0]:.2f}", f"{self.moved[1]:.2f}"),
            ("copies of a record", str(REPLICAS + 1), "1"),
            ("the query", _time(self.kafka_query_ms), _time(self.tidelog_query_ms)),
            ("dollars a month", theirs, f"{self.tidelog_dollars():,.0f}"),
            (f"… with zones known and flush.ms={THRIFTY_FLUSH_MS}", "", f"{thrifty:,.0f}"),
            ("… with zones known, at a journal: rows within 4 min", "", f"{shared:,.0f}"),
        ]


def _time(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s" if milliseconds >= 1000 else f"{milliseconds:.0f} ms"


_WIDTH, _HEIGHT = 960, 562
_GREY: Final = "#4b5a61"
_ROADS: Final = (
    ("Kafka and a job", ("producer", "broker: 3 copies", "Spark job", "typed Delta table"), "", 24, "#8a5a00"),
    ("Tidelog", ("producer", "topic = typed Delta table"), "data.", 496, "#0b6b80"),
)


def draw(figures: Figures) -> str:
    """Return the picture as SVG."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
    title = "The same SQL on a Kafka topic with a Delta job, and on a typed topic"
    parts = [f'{head} font-family="system-ui, sans-serif"><title>{title}</title>']
    parts.append(f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>')
    rows = figures.rows()
    for column, (name, steps, prefix, left, colour) in enumerate(_ROADS, start=1):
        parts.append(_text(left, 36, name, size=20, weight=600))
        parts += _road(steps, left, colour)
        parts.append(f'<rect x="{left}" y="132" width="440" height="128" rx="6" fill="#f4f6f7" stroke="#d5dbde"/>')
        parts += [
            _text(left + 12, 158 + 22 * number, line, family="ui-monospace, monospace", size=12)
            for number, line in enumerate(SQL.format(prefix, "orders").splitlines())
        ]
        for number, row in enumerate(rows):
            top = 292 + 26 * number
            if not row[column]:
                continue
            parts.append(_text(left, top, row[0], colour=_GREY))
            parts.append(_text(left + 440, top, row[column], weight=600, anchor="end", colour=colour))
    load = f"{LOAD.mib_per_second} MiB/s into {LOAD.topics} topics, kept {cost.RETENTION_DAYS} days"
    notes = (
        f"Measured {figures.measured}; {figures.records:,} orders of {figures.value_bytes:.0f} B, two cores.",
        f"Dollars: {load}, by the prices of docs/cost.md.",
    )
    parts += [_text(24, 536 + 17 * number, note, size=12, colour=_GREY) for number, note in enumerate(notes)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _road(steps: tuple[str, ...], left: int, colour: str) -> list[str]:
    """Return boxes from left to right, with arrows between them."""
    gap = 16
    width = (440 - gap * (len(steps) - 1)) / len(steps)
    parts = []
    for number, step in enumerate(steps):
        x = left + number * (width + gap)
        line = f'fill="none" stroke="{colour}" stroke-width="1.5"/>'
        parts.append(f'<rect x="{x:.0f}" y="58" width="{width:.0f}" height="52" rx="6" {line}')
        parts += _wrapped(x + width / 2, step)
        if number:
            parts.append(f'<path d="M{x - gap + 2:.0f} 84h{gap - 6}m-5 -4l5 4l-5 4" {line}')
    return parts


def _wrapped(x: float, text: str) -> list[str]:
    """Return the text in two lines where it is long."""
    words = text.split()
    if len(text) <= 12 or len(words) == 1:
        return [_text(x, 89, text, anchor="middle", size=13)]
    half = (len(words) + 1) // 2
    lines = " ".join(words[:half]), " ".join(words[half:])
    return [_text(x, 80 + 18 * number, line, anchor="middle", size=13) for number, line in enumerate(lines)]


def _text(
    x: float, y: float, text: str, *, size: int = 14, weight: int = 400, anchor: str = "start", colour: str = "#16262d",
    family: str = "",
) -> str:  # fmt: skip
    style = f' font-family="{family}"' if family else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}"'
        f'{style} xml:space="preserve">{escape(text)}</text>'
    )
