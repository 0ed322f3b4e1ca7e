"""``tidelog bench``: how fast a gateway takes and gives records, as this client sees it."""

from tidelog.cli.bench.commands import app

__all__ = ["app"]
