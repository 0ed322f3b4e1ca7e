"""How Java begins fast where it lives for some minutes at most and shares its processors with gateways."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Final

SETTINGS: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    # Room for all that Spark's tests compile and load. With C1 alone Java takes 48 MiB for code: from then on it sweeps that
    # again and again, and compiles anew what it swept away.
    "-XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m -XX:NewRatio=1"
)
CACHE: Final = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache" / "tidelog")
ARCHIVE: Final = CACHE / "java" / f"spark-{version('pyspark')}.jsa"
"""Spark's classes as Java holds them (``java_archive``). One that does not fit is not used, and nothing is said."""
_WITH_ARCHIVE: Final = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
FAST_START: Final = f"{SETTINGS} {_WITH_ARCHIVE}" if ARCHIVE.exists() and " " not in str(ARCHIVE) else SETTINGS
