"""Import each of our modules in the gateway's image, after ``slim.sh``: fails where one misses what was taken out.

Run it with ``LD_BIND_NOW=1``: every symbol of every library is looked up then. A module may miss a package that the image's lock
does not have (duckdb); one of the lock's packages must be whole enough for all that import it.
"""
# ruff: noqa: INP001 - a program of its own, for the build of an image

import importlib
import pkgutil
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import boto3

LATE: Final = ("fastavro", "rich.syntax", "rich.traceback", "zstandard")
"""Modules that only functions import, ours or typer's."""


def main() -> None:
    """Import all modules but those that run when they are imported, and the demo's, whose packages no image has; and make the
    clients of AWS that a gateway has."""
    for service in ("s3", "sts"):
        boto3.client(service, region_name="eu-central-1")
    for name in LATE:
        importlib.import_module(name)
    for package in ("gateway", "log_format", "tidelog"):
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not found.name.endswith("__main__") and not found.name.startswith("tidelog.demo."):
                try:
                    importlib.import_module(found.name)
                except ModuleNotFoundError as missing:
                    if _is_installed((missing.name or "").partition(".")[0]):
                        raise


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


main()
