"""Command line options that name a catalog, and the function that opens it."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Final

from compaction.catalogs.catalog import Catalog

TOKEN_VARIABLE: Final = "TIDELOG_UNITY_TOKEN"  # noqa: S105 - its name

_LIBRARIES: Final = ("boto3", "botocore", "thrift", "urllib3")


def add_options(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options that name a catalog."""
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("--unity", metavar="URL", help="Unity Catalog's address; with --catalog and --schema")
    which.add_argument("--glue", metavar="DATABASE", help="a database of AWS Glue")
    which.add_argument("--hive", metavar="thrift://HOST:9083/DATABASE", help="a database of a Hive Metastore")
    parser.add_argument("--catalog", help="with --unity")
    parser.add_argument("--schema", help="with --unity")
    parser.add_argument("--unity-token-file", metavar="FILE", help=f"file with its token (or {TOKEN_VARIABLE})")


def open_catalog(options: argparse.Namespace) -> Catalog | None:
    """Return the catalog that the options name, or None. No request is made. Raises ``ValueError``."""
    if options.unity is None and (options.catalog or options.schema):
        raise ValueError("--catalog and --schema belong to --unity URL")
    if options.unity is None and options.glue is None and options.hive is None:
        return None
    for library in _LIBRARIES:  # what they log is in our messages, without a traceback
        logging.getLogger(library).setLevel(logging.CRITICAL)
    if options.unity is not None:
        if not options.catalog or not options.schema:
            raise ValueError("--unity needs --catalog and --schema")
        from compaction.catalogs.unity import UnityCatalog  # noqa: PLC0415 - only its users pay the import

        return UnityCatalog(options.unity, options.catalog, options.schema, token=_token(options.unity_token_file))
    if options.glue is not None:
        try:
            from compaction.catalogs.glue import GlueCatalog  # noqa: PLC0415 - only its users need boto3
        except ModuleNotFoundError as error:
            raise ValueError("--glue needs boto3: pip install 'tidelog[s3]'") from error
        return GlueCatalog(options.glue)
    try:
        from compaction.catalogs.hive import HiveCatalog  # noqa: PLC0415 - only its users need Thrift
    except ModuleNotFoundError as error:
        raise ValueError("--hive needs pymetastore: pip install 'tidelog[hive]'") from error
    return HiveCatalog.at(options.hive)


def _token(file: str | None) -> str | None:
    """Return the token, or None if there is none. Raises ``ValueError``, which does not say the token."""
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            return None
    else:
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise ValueError(f"the file with the token of Unity Catalog can't be read: {problem}") from None
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise ValueError(f"what {file or TOKEN_VARIABLE} has is no token: one word of printable ASCII characters")
    return token
