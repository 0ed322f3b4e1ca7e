"""``tidelog bench``: a gateway's throughput and latency, as this client sees them."""

from tidelog.cli.bench.commands import app

__all__ = ["app"]
