"""The setting of readers of history; part of ``gateway.settings``."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field

READER_BYTES: Final = 256 * 1024 * 1024
"""Memory of one reader's process: interpreter and libraries (95 MiB), its tasks, read-ahead, footers. 223 MiB were measured."""
HELD_BYTES: Final = 1024 * 1024
"""Memory of one reader's answers in the gateway: a piece of each task, and the unsent bytes of its connection."""


class HistorySettings(BaseModel):
    """Setting of the readers of history. Each field says what changing it does."""

    readers: int = Field(
        default=1,
        ge=0,
        le=64,
        description="Processes of lower priority that read old records for fetches over HTTP, so that producers and readers at"
        " the tail don't feel them. They run while clients are far behind the tail. Each takes up to"
        f" {READER_BYTES >> 20} MiB beside the gateway. Each of several workers has so many. 0: the gateway reads by itself.",
    )

    @property
    def readers_bytes(self) -> int:
        """Memory of the readers' processes."""
        return self.readers * READER_BYTES
