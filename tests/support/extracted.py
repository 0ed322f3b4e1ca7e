"""Archives of this repository's own, extracted by any Python: filters came with 3.11.4, and 3.12 warns without one."""

from __future__ import annotations

import tarfile
from pathlib import Path


def extract(archive: tarfile.TarFile, directory: Path) -> None:
    """Extract all members into ``directory``."""
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(directory)
