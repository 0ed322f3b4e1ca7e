"""``tidelog schema …``: the schema registry's subjects and versions."""

from __future__ import annotations

import json
import re
import sys
from difflib import unified_diff
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, cast, get_args

import typer

from tidelog.cli.commands.schema_import import import_
from tidelog.cli.sources.lines import STANDARD_STREAM
from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.console import note, output, print_json
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.names import SubjectArgument
from tidelog.cli.terminal.schema_findings import findings, old_version
from tidelog.cli.terminal.tables import table
from tidelog.cli.terminal.visible import visible_text
from tidelog.schemas.arrow_schema import avro_schema, read_arrow_schema
from tidelog.types.schema import CompatibilityLevel, SchemaReference, SchemaType

app = Commands(help="Register, list, show, compare and delete schemas: what values of typed topics look like.")


class TypeName(StrEnum):
    """Type of a schema, as typed by the user."""

    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"
    ARROW = "arrow"


_TYPES: Final = {".avsc": TypeName.AVRO, ".json": TypeName.JSON, ".proto": TypeName.PROTOBUF, ".arrow": TypeName.ARROW}
"""Types by the endings of files."""
_LEVELS: Final = get_args(CompatibilityLevel)

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="The schema: .avsc, .proto, .json (JSON Schema) or .arrow. '-': standard input."
    ),
]
TypeOption = Annotated[
    TypeName | None,
    typer.Option("--type", case_sensitive=False, help="The schema's type, if the file's ending does not tell it."),
]
ReferenceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="A schema that the file refers to: by NAME, as a version of SUBJECT. May be given many times.",
    ),
]
VersionOption = Annotated[int | None, typer.Option("--version", min=1, help="This version. Default: the newest.")]
DeletedOption = Annotated[bool, typer.Option("--deleted", help="Deleted ones, too.")]


@app.command()
def register(
    subject: SubjectArgument,
    file: FileArgument,
    *,
    type_: TypeOption = None,
    reference: ReferenceOption = None,
    arrow: Annotated[
        bool, typer.Option("--arrow", help="FILE is an Arrow schema, file or stream; the same as --type arrow.")
    ] = False,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Compare and keep the normal form: order and layout make no difference.")
    ] = False,
    call: AdminCall,
) -> None:
    """Register a schema as the next version of a subject, unless it is one of its versions.

    The subject of a topic's values is called TOPIC-value, that of its keys TOPIC-key; other names are allowed. A schema that
    is not compatible with the subject's versions is refused: check says why beforehand. An Arrow schema becomes an Avro schema
    whose columns have its types.

    \b
    Examples:
      tidelog schema register orders-value order.avsc
      tidelog schema register orders-value --arrow schema.arrow
      tidelog schema register orders-value order.json --type json
      tidelog schema register cart-value cart.avsc --reference shop.Order=orders-value:1 --normalize
    """
    with call.admin() as admin:
        text, schema_type = _read(file, TypeName.ARROW if arrow else type_)
        references = [_reference(each) for each in reference or ()]
        made = admin.schemas().register(subject, text, schema_type, references=references, normalize=normalize)
        call.report(made, f"Subject {subject} has the schema as version {made.version}, id {made.id}.")


@app.command("list")
def list_(
    *,
    prefix: Annotated[str | None, typer.Option(help="Only subjects whose name begins so.")] = None,
    deleted: DeletedOption = False,
    call: TableCall,
) -> None:
    """List the subjects.

    \b
    Examples:
      tidelog schema list
      tidelog schema list --prefix orders --deleted --json
    """
    with call.admin() as admin:
        subjects = admin.schemas().subjects(prefix, deleted=deleted)
        call.show_list({"subjects": subjects}, table("subject"), lambda each: [each], none="There are no subjects.")


@app.command()
def show(
    subject: SubjectArgument,
    *,
    version: VersionOption = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="With --version: also a deleted one.")] = False,
    call: AdminCall,
) -> None:
    """Write a version's schema to standard output; version, id and type go to standard error.

    \b
    Examples:
      tidelog schema show orders-value
      tidelog schema show orders-value --version 1 --json
      tidelog schema show orders-value > order.avsc
    """
    with call.admin() as admin:
        schemas = admin.schemas()
        found = schemas.latest(subject) if version is None else schemas.version(subject, version, deleted=deleted)
        if call.as_json:
            print_json(found)
            return
        note(f"{found.subject}, version {found.version}, id {found.id}, {found.schema_type}")
        for each in found.references:
            note(f"refers to {each.name}: {each.subject}, version {each.version}")
        console = output()
        console.print(visible_text(found.schema) if console.is_terminal else found.schema, markup=False)


@app.command()
def diff(
    subject: SubjectArgument,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Compare a version with this file instead of with a version."),
    ] = None,
    *,
    from_: Annotated[
        int | None,
        typer.Option("--from", min=1, help="The old version. Default: the one before; with FILE the newest."),
    ] = None,
    to: Annotated[int | None, typer.Option("--to", min=1, help="The new version. Default: the newest.")] = None,
    call: AdminCall,
) -> None:
    """Write what differs between two versions of a subject, or between a version and a file, in lines of - and +.

    Schemas of Avro and JSON are laid out alike first, so that only their content is compared.

    \b
    Examples:
      tidelog schema diff orders-value
      tidelog schema diff orders-value --from 1 --to 3
      tidelog schema diff orders-value order.avsc --json
    """
    with call.admin() as admin:
        if file is not None and to is not None:
            raise ValueError("FILE is the new schema: it excludes --to")
        schemas = admin.schemas()
        numbers = schemas.versions(subject)
        if file is not None:
            old, new_name, new_text = from_ or numbers[-1], str(file), file.read_text()
        else:
            new = to or numbers[-1]
            old = from_ or max((each for each in numbers if each < new), default=new)
            new_name, new_text = f"version {new}", schemas.version(subject, new, deleted=True).schema
        before = schemas.version(subject, old, deleted=True).schema
        lines = list(unified_diff(_laid_out(before), _laid_out(new_text), f"version {old}", new_name, lineterm=""))
        if call.as_json:
            print_json({"subject": subject, "from": old, "to": new_name if file is not None else new, "lines": lines})
        elif lines:
            for line in lines:
                output().print(visible_text(line), markup=False, highlight=False, soft_wrap=True)
        elif file is None and old == new:
            note(f"{subject} has one version, {new}.")
        else:
            note(f"Version {old} of {subject} and {new_name} do not differ.")


@app.command()
def versions(subject: SubjectArgument, *, deleted: DeletedOption = False, call: TableCall) -> None:
    """List the versions of a subject, with their ids.

    \b
    Examples:
      tidelog schema versions orders-value
      tidelog schema versions orders-value --deleted --json
    """
    with call.admin() as admin:
        schemas = admin.schemas()
        found = [schemas.version(subject, each, deleted=deleted) for each in schemas.versions(subject, deleted=deleted)]
        columns = table("type", "", numbers=["version", "id"])
        call.show_list(
            {"versions": found},
            columns,
            lambda each: [each.schema_type, "deleted" if each.deleted else "", str(each.version), str(each.id)],
            none="There are no versions.",
        )


@app.command()
def delete(
    subject: SubjectArgument,
    *,
    version: Annotated[int | None, typer.Option("--version", min=1, help="Only this version.")] = None,
    permanent: Annotated[
        bool,
        typer.Option(
            "--permanent", help="Remove the schema itself: values that name its id can't be decoded any more."
        ),
    ] = False,
    yes: YesOption = False,
    call: AdminCall,
) -> None:
    """Delete a subject, or one version. Values that were written with it stay readable, unless it is --permanent.

    Asks for confirmation. A version that other schemas refer to is not deleted.

    \b
    Examples:
      tidelog schema delete orders-value --version 1 --yes
      tidelog schema delete orders-value --permanent --yes
    """
    what = subject if version is None else f"version {version} of {subject}"
    with call.admin() as admin:
        confirm(f"Delete {what}{' for ever' if permanent else ''}?", yes=yes)
        gone = admin.schemas().delete(subject, version, permanent=permanent)
        numbers = ", ".join(map(str, gone))
        call.report(
            {"deleted": gone},
            f"Deleted{' for ever' if permanent else ''}: {subject}, version{'s'[: len(gone) > 1]} {numbers}.",
        )


@app.command()
def check(
    subject: SubjectArgument,
    file: FileArgument,
    *,
    type_: TypeOption = None,
    reference: ReferenceOption = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version", min=1, help="Compare with this version. Default: those that the subject's level names."
        ),
    ] = None,
    call: AdminCall,
) -> None:
    """Say whether a schema may be registered, and why not. Nothing is changed. Exit code 1 if not.

    \b
    Examples:
      tidelog schema check orders-value order.avsc
      tidelog schema check orders-value order.avsc --version 1 --json
    """
    with call.admin() as admin:
        text, schema_type = _read(file, type_)
        references = [_reference(each) for each in reference or ()]
        checked = admin.schemas().check(subject, text, schema_type, references=references, version=version)
        if call.as_json:
            print_json(checked)
        else:
            reasons = "\n".join(checked.messages)
            compared = version or old_version(reasons)
            against = subject if compared is None else f"version {compared} of {subject}"
            note(f"{file} is {'' if checked.is_compatible else 'not '}compatible with {against}.")
            for line in findings(reasons) or checked.messages:
                note(f"  {line}")
    if not checked.is_compatible:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def compatibility(
    subject: Annotated[
        str | None,
        typer.Argument(metavar="[SUBJECT]", help="The subject. Default: all subjects without a level of their own."),
    ] = None,
    level: Annotated[
        str | None, typer.Argument(metavar="[LEVEL]", help="The level to set: " + ", ".join(_LEVELS) + ".")
    ] = None,
    *,
    all_: Annotated[
        bool, typer.Option("--all", help="Set the level of all subjects without their own; it is the only argument.")
    ] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="Remove the level: that of all subjects, or BACKWARD, applies again.")
    ] = False,
    call: AdminCall,
) -> None:
    """Show or set how the versions of a subject may change.

    BACKWARD (the default): readers with the new schema can read what the version before wrote. FORWARD: readers with the version
    before can read what the new schema writes. FULL: both. …_TRANSITIVE: with all versions. NONE: nothing is compared.

    \b
    Examples:
      tidelog schema compatibility
      tidelog schema compatibility orders-value
      tidelog schema compatibility orders-value FULL
      tidelog schema compatibility --all BACKWARD_TRANSITIVE
      tidelog schema compatibility orders-value --reset --json
    """
    with call.admin() as admin:
        if all_:
            if level is not None or (subject is None and not reset):
                raise ValueError("--all takes one argument, the level")
            subject, level = None, subject
        elif level is None and subject is not None and subject.upper() in _LEVELS:
            raise ValueError(
                f"{subject} is a level: give the subject before it, or --all to set it for all without their own"
            )
        if level is not None and reset:
            raise ValueError("--reset takes no level")
        if reset and subject is None and not all_:
            raise ValueError("--reset needs a subject, or --all")
        schemas = admin.schemas()
        if level is not None:
            schemas.set_compatibility(subject, _level(level))
        elif reset:
            schemas.set_compatibility(subject, None)
        own = schemas.compatibility(subject)
        in_force = schemas.compatibility() if own is None else own
        who = "All subjects without their own level" if subject is None else f"Subject {subject}"
        why = "" if own is not None or subject is None else ", as all without their own"
        answer = {"subject": subject, "compatibility": in_force, "own": own is not None}
        call.report(answer, f"{who}: {in_force}{why}.")


app.command("import")(import_)


def _read(file: Path, type_: TypeName | None) -> tuple[str, SchemaType]:
    """Return the schema's text and type. Raises ``ValueError`` and ``OSError``."""
    known = type_ or _TYPES.get(file.suffix.lower())
    if known is None:
        endings = ", ".join(_TYPES)
        raise ValueError(f"what type of schema is {file}? Its name ends with none of {endings}: give --type")
    data = sys.stdin.buffer.read() if file == STANDARD_STREAM else file.read_bytes()
    if known is TypeName.ARROW:
        try:
            return avro_schema(read_arrow_schema(data, file)), "AVRO"
        except TypeError as error:
            raise ValueError(str(error)) from None
    try:
        return data.decode(), cast("SchemaType", known.name)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no text: {error}") from None


def _laid_out(schema: str) -> list[str]:
    """Return the lines of a schema; JSON has a member in each."""
    try:
        return json.dumps(json.loads(schema), indent=2, ensure_ascii=False).splitlines()
    except ValueError:
        return schema.splitlines()


def _reference(text: str) -> SchemaReference:
    found = re.fullmatch(r"(?P<name>[^=]+)=(?P<subject>.+):(?P<version>[0-9]+)", text)
    if found is None:
        raise ValueError(f"--reference {text!r} is not NAME=SUBJECT:VERSION")
    return SchemaReference(found["name"], found["subject"], int(found["version"]))


def _level(text: str) -> CompatibilityLevel:
    level = text.upper()
    if level not in _LEVELS:
        raise ValueError(f"{text!r} is no level: there are {', '.join(_LEVELS)}")
    return cast("CompatibilityLevel", level)
