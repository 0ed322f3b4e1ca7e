"""EMR's entry point: maintenance, with the options of ``python -m compaction``. In the image: ``/opt/tidelog/maintenance.py``."""
# ruff: noqa: INP001 - a program of its own

import sys

from compaction.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
