"""The lines of an answer about a table, in either of the protocol's formats ("API Response Actions in Parquet/Delta Format").

A client names the formats that it knows in the header ``delta-sharing-capabilities``. Tables of Tidelog need no reader feature,
so it gets the simpler ``parquet`` unless it asks for ``delta`` only. Of the table's properties an answer has Delta's own:
Tidelog's are of no use to a reader of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from log_format.checkpoints.table_files import TableFiles
from log_format.delta.actions import plain_path

CAPABILITIES_HEADER: Final = "delta-sharing-capabilities"
Format = Literal["parquet", "delta"]
_ID_DIGITS: Final = 32
_PROPERTY_PREFIX: Final = "delta."


class Capabilities(NamedTuple):
    """What a client asked for: the format of its answer, and whether it waits for an ``endStreamAction`` at its end."""

    format: Format
    wants_end: bool
    header: str | None
    """Header of the answer; None if the client sent none."""


def capabilities_of(header: str | None) -> Capabilities:
    """Return what the header of a request says; names and values are read in any case."""
    if header is None:
        return Capabilities("parquet", False, None)
    named: dict[str, list[str]] = {}
    for part in header.lower().split(";"):
        name, _, values = part.partition("=")
        named[name.strip()] = [value.strip() for value in values.split(",")]
    formats = named.get("responseformat", ["parquet"])
    chosen: Format = "delta" if "delta" in formats and "parquet" not in formats else "parquet"
    wants_end = named.get("includeendstreamaction") == ["true"]
    answer = f"responseformat={chosen}" + (";includeendstreamaction=true" if wants_end else "")
    return Capabilities(chosen, wants_end, answer)


class SignedUrl(NamedTuple):
    """A URL at which a file can be read until ``expires_at_ms``."""

    url: str
    expires_at_ms: int


Sign = Callable[[str], SignedUrl]
"""Function from a file's path in its table, not URI-encoded, to its URL."""


def protocol_line(files: TableFiles, wanted: Format) -> dict[str, Any]:
    """Return the line about the protocol."""
    if wanted == "parquet":
        return {"protocol": {"minReaderVersion": 1}}
    named = {name: value for name, value in files.protocol.items() if value is not None}
    return {"protocol": {"deltaProtocol": named}}


def metadata_line(
    metadata: Mapping[str, Any], wanted: Format, version: int, files: TableFiles | None = None
) -> dict[str, Any]:
    """Return the line about the table's metadata at a version. ``files``: the table, if size and number of files are wanted."""
    described: dict[str, Any] = {
        "id": metadata["id"],
        "name": metadata["name"],
        "format": {"provider": "parquet"},
        "schemaString": metadata["schemaString"],
        "partitionColumns": list(metadata["partitionColumns"] or ()),
        "configuration": {
            name: value for name, value in metadata["configuration"] if name.startswith(_PROPERTY_PREFIX)
        },
    }
    more: dict[str, Any] = {"version": version}
    if files is not None:
        more |= {"size": files.size_bytes, "numFiles": files.file_count}
    if wanted == "parquet":
        return {"metaData": described | more}
    delta_metadata = described | {"createdTime": metadata["createdTime"]}
    delta_metadata["format"] = {"provider": "parquet", "options": {}}
    return {"metaData": more | {"deltaMetadata": delta_metadata}}


class FileLine(NamedTuple):
    """What the lines about files of one answer have in common."""

    format: Format
    sign: Sign

    def of(
        self, row: Mapping[str, Any], kind: Literal["file", "add", "remove"], version: int | None, time_ms: int | None
    ) -> dict[str, Any]:
        """Return a file's line.

        Args:
            row: its action, with Delta's names of its members.
            kind: ``file`` of a snapshot, or a change.
            version: version that the answer names; None: none.
            time_ms: that version's time.
        """
        signed = self.sign(plain_path(row["path"]))
        partition_values = dict(row["partitionValues"] or ())
        stats = {"stats": row["stats"]} if row.get("stats") else {}
        at = {} if version is None else {"version": version, "timestamp": time_ms or 0}
        common = {"id": _file_id(row["path"]), "expirationTimestamp": signed.expires_at_ms, **at}
        if self.format == "parquet":
            named = {"url": signed.url, "partitionValues": partition_values, "size": row["size"] or 0}
            return {kind: common | named | stats}
        action = {
            "path": signed.url,
            "partitionValues": partition_values,
            "size": row["size"] or 0,
            "dataChange": True,
        }
        if kind == "remove":
            single = {"remove": action | {"deletionTimestamp": time_ms or 0, "extendedFileMetadata": True}}
        else:
            single = {"add": action | {"modificationTime": row["modificationTime"]} | stats}
        return {"file": common | {"deltaSingleAction": single}}


def _file_id(path: str) -> str:
    """Return a name of the file that is the same in every answer. Clients use it in paths of their own, so it has no slash."""
    return hashlib.sha256(path.encode()).hexdigest()[:_ID_DIGITS]
