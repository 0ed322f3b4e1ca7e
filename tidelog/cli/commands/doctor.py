"""``tidelog doctor``: say in plain words whether a store can carry a log, and what its logs lack."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.terminal.console import JsonOption, output, print_json, reading_a_store, reporting
from tidelog.cli.terminal.exit_code import ExitCode

if TYPE_CHECKING:
    from log_format.inspection.diagnosis import Finding

_STYLES = {"good": "green", "poor": "yellow", "bad": "red"}


def doctor(
    store: Annotated[
        str, typer.Option(envvar="TIDELOG_STORE", help="Where the log lies: a directory, s3://bucket/prefix, …")
    ],
    is_reader: Annotated[
        bool, typer.Option("--reader", help="Check only what a job that reads needs; write nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a store: permissions, conditional PUT, clock, latency, gateways, and whether its topics are looked after.

    Run it with the credentials, and on the machine, of the gateway that is to use the store. What it writes lies below
    system/probes/ and is deleted again. A directory must be there already. Exit code 1 when something does not work; what only
    needs a look is said, and is no failure.

    \b
    Examples:
      tidelog doctor --store s3://bucket/prefix
      tidelog doctor --store ./log --reader --json
    """
    with reporting(as_json=as_json):
        with reading_a_store():
            from log_format.clock import SystemClock  # noqa: PLC0415 - with the others
            from log_format.inspection.diagnosis import Verdict, diagnose  # noqa: PLC0415 - needs pyarrow
            from log_format.stores import open_store  # noqa: PLC0415 - only here the store itself is read
        opened = open_store(store, must_exist=True)
        findings = []
        for finding in diagnose(opened, SystemClock(), lambda: str(uuid.uuid4()), is_reader=is_reader):
            findings.append(finding)
            if not as_json:
                _show(finding)
        is_well = all(finding.verdict is not Verdict.BAD for finding in findings)
        if as_json:
            print_json({"store": store, "ok": is_well, "findings": findings})
    if not is_well:
        raise typer.Exit(ExitCode.FAILED)


def _show(finding: Finding) -> None:
    console = output()
    console.print(f"{finding.verdict:4}  {finding.what}: {finding.said}", style=_STYLES[finding.verdict], markup=False)
    if finding.advice:
        console.print(f"      {finding.advice}", markup=False)
