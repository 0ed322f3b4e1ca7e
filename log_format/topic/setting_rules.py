"""Rules between a topic's settings, and between settings and what a gateway takes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from log_format import limits


def contradictions(overrides: Mapping[str, int | str], request_bytes_max: int) -> Iterator[tuple[str, str]]:
    """Yield each setting that another one forbids: its name, and what it must be.

    Args:
        overrides: settings that a user set, each within its own range.
        request_bytes_max: largest request body, in bytes.
    """
    largest = overrides.get("max.message.bytes", 0)
    if isinstance(largest, int) and largest > request_bytes_max:
        yield "max.message.bytes", f"must not be above {request_bytes_max}, the largest request body"
    if overrides.get("value.keep") == "false" and not overrides.get("value.schema"):
        yield "value.keep", "must not be false without value.schema: the values would be lost"
    promised = overrides.get("commit.retention.ms", 0)
    files_ms = overrides.get("deleted.file.retention.ms", limits.DELETED_FILE_RETENTION_MS)
    if isinstance(promised, int) and isinstance(files_ms, int) and promised > files_ms:
        yield (
            "commit.retention.ms",
            f"must not be above deleted.file.retention.ms, which is {files_ms}: a version can't be read without its files",
        )
