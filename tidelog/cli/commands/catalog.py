"""``tidelog catalog …``: topics as external Delta tables in catalogs of other systems."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Annotated

import typer

from tidelog.cli.terminal.console import note
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.options import Options
from tidelog.programs import become

app = Commands(help="Topics as tables in Unity Catalog, AWS Glue or a Hive Metastore.")

StoreOption = Annotated[
    str, typer.Option(envvar="TIDELOG_STORE", help="A directory, file:///directory or s3://bucket/prefix.")
]
UnityOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Unity Catalog's address; needs --catalog and --schema.")
]
CatalogOption = Annotated[str | None, typer.Option(metavar="NAME", help="The catalog in Unity Catalog.")]
SchemaOption = Annotated[str | None, typer.Option(metavar="NAME", help="The schema in Unity Catalog.")]
UnityTokenOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="File with the token for Unity Catalog. Default: TIDELOG_UNITY_TOKEN."),
]
GlueOption = Annotated[str | None, typer.Option(metavar="DATABASE", help="A database of AWS Glue.")]
HiveOption = Annotated[
    str | None, typer.Option(metavar="URL", help="A database of a Hive Metastore: thrift://host:9083/database.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]

NEEDED = ("pyarrow", "numpy", "compaction")
_MODULES = {"glue": ("boto3", "s3"), "hive": ("pymetastore", "hive")}
"""The module that a catalog needs, and the extra that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCatalog(Options):
    """The options that name a catalog."""

    unity: UnityOption = None
    catalog: CatalogOption = None
    schema: SchemaOption = None
    unity_token_file: UnityTokenOption = None
    glue: GlueOption = None
    hive: HiveOption = None

    def arguments(self, *, required: bool) -> list[str]:
        """Return them for the program, or exit with what is wrong."""
        named = [name for name in ("unity", "glue", "hive") if getattr(self, name) is not None]
        if len(named) > 1 or (required and not named):
            note("Name one catalog: --unity URL, --glue DATABASE or --hive URL.")
            raise typer.Exit(ExitCode.USAGE)
        if (self.unity is not None) != bool(self.catalog and self.schema) or (
            self.unity is None and (self.catalog or self.schema)
        ):
            note("--unity, --catalog and --schema belong together.")
            raise typer.Exit(ExitCode.USAGE)
        for module, extra in (_MODULES[name] for name in named if name in _MODULES):
            if importlib.util.find_spec(module) is None:
                note(f"--{named[0]} needs {module}: pip install 'tidelog[{extra}]'")
                raise typer.Exit(ExitCode.FAILED)
        return [
            argument
            for name in self.__slots__
            if (value := getattr(self, name)) is not None
            for argument in (f"--{name.replace('_', '-')}", value)
        ]


@app.command()
def sync(
    store: StoreOption,
    *,
    named: NamedCatalog,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report what would be done, and change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create, alter and drop tables until the catalog shows the store's topics. tidelog maintain does the same in each round.

    Only tables that it made are ever changed. A table with a topic's name that somebody else made is reported. No file is
    touched. Exit code 1 if a topic could not be shown.

    \b
    Examples:
      tidelog catalog sync --store s3://bucket/log --unity https://uc.example --catalog main --schema events
      tidelog catalog sync --store s3://bucket/log --glue events --dry-run
      tidelog catalog sync --store s3://bucket/log --hive thrift://metastore:9083/events
    """
    _become("sync", store, named, ["--dry-run"] if dry_run else [], as_json=as_json)


@app.command()
def status(
    store: StoreOption,
    *,
    named: NamedCatalog,
    as_json: JsonOption = False,
) -> None:
    """Show each topic's table in a catalog: whether it is current, missing, outdated, or somebody else's.

    Nothing is changed. Exit code 1 if a table is not current.

    \b
    Examples:
      tidelog catalog status --store s3://bucket/log --unity https://uc.example --catalog main --schema events
      tidelog catalog status --store s3://bucket/log --glue events --json
    """
    _become("status", store, named, [], as_json=as_json)


def _become(command: str, store: str, named: NamedCatalog, more: list[str], *, as_json: bool) -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        note(
            f"tidelog catalog needs {', '.join(missing)}: pip install 'tidelog[arrow]' (with s3 too: 'tidelog[arrow,s3]')"
        )
        raise typer.Exit(ExitCode.FAILED)
    arguments = [command, "--store", store, *named.arguments(required=True), *more, *(["--json"] if as_json else [])]
    become("compaction.catalogs", arguments)
