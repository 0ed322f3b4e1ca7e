"""``tidelog doctor``: diagnosis of a store and its logs in plain words, of what is open to attack, and repair of a topic."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from log_format.errors import TidelogError
from log_format.inspection.finding import Finding, Verdict, bad, good, poor
from tidelog.admin import Admin
from tidelog.cli.commands.cluster import failing_text
from tidelog.cli.commands.repair import TRANSACTIONS, end_transactions_in, repair_in
from tidelog.cli.security.gateway import check_gateway, check_rights
from tidelog.cli.security.settings import check_settings
from tidelog.cli.security.store import check_store
from tidelog.cli.security.tls import check_address
from tidelog.cli.terminal.confirmation import YesOption
from tidelog.cli.terminal.console import (
    ADMIN_TIMEOUT_S,
    JsonOption,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    output,
    print_json,
    reading_a_store,
    reporting,
)
from tidelog.cli.terminal.error_words import sentence
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.visible import visible_text
from tidelog.http.credentials import Credentials
from tidelog.http.endpoints import Endpoints

_STYLES = {"good": "green", "poor": "yellow", "bad": "red"}


def doctor(
    store: Annotated[
        str | None, typer.Option(envvar="TIDELOG_STORE", help="The log's store: a directory, s3://bucket/prefix, …")
    ] = None,
    *,
    is_reader: Annotated[
        bool, typer.Option("--reader", help="Check only what a reading job needs; write nothing.")
    ] = False,
    security: Annotated[
        bool,
        typer.Option(
            "--security", help="Report what is open to others: the gateway, its settings here, and the store."
        ),
    ] = False,
    repair: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="Make this topic readable again without its lost data; system/transactions: end decided transactions without "
            "their lost staged objects.",
        ),
    ] = None,
    yes: YesOption = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = ADMIN_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Check a store: permissions, conditional PUT, clock, latency, gateways, and whether its topics are maintained.

    Run it with the credentials, and on the machine, of the gateway that will use the store. It writes only below system/probes/,
    and deletes that again. A directory must exist already. With --url it asks that gateway, too, whether it can write. Exit code
    1 if something does not work; warnings do not count.

    With --security it reports what is open to others, writes nothing, and needs no store. It asks the gateway without a token,
    and with one that may Alter the cluster for tokens and ACLs. If a gateway's variables are set, it checks them too.

    With --repair it repairs one topic whose log lacks objects or whose segments are gone: it shows what is lost, asks, and
    commits. Lost records stay lost, so restore the objects from a backup first, if there is one. With --repair
    system/transactions it does so for decided transactions whose staged objects are gone.

    \b
    Examples:
      tidelog doctor --store s3://bucket/prefix
      tidelog doctor --store ./log --reader --json
      tidelog doctor --security --store ./log
      tidelog doctor --store ./log --repair orders
    """
    if repair is not None:
        _repair(store, repair, yes=yes, as_json=as_json)
        return
    with reporting(as_json=as_json):
        if security:
            looked = _security_findings(url, token_file, timeout * 1000)
            found: Iterator[Finding] = chain(looked, () if store is None else check_store(store))
        elif store is None:
            raise ValueError(
                "no store is given: name it with --store DIRECTORY, or give --security for the gateway alone"
            )
        else:
            asked = _of_gateway(None if is_reader else url, token_file, timeout * 1000)
            found = chain(_diagnosed(store, is_reader=is_reader), asked)
        findings = _shown(found, _quiet if as_json else _show)
        is_well = all(finding.verdict is not Verdict.BAD for finding in findings)
        if as_json:
            print_json({"store": store, "ok": is_well, "findings": findings})
    if not is_well:
        raise typer.Exit(ExitCode.FAILED)


def _repair(store: str | None, what: str, *, yes: bool, as_json: bool) -> None:
    with reporting(as_json=as_json):
        if store is None:
            raise ValueError("no store is given: name it with --store DIRECTORY")
        act = end_transactions_in if what == TRANSACTIONS else partial(repair_in, topic=what)
        act(store, yes=yes, as_json=as_json)


def _diagnosed(store: str, *, is_reader: bool) -> Iterator[Finding]:
    with reading_a_store():
        from log_format.clock import SystemClock  # noqa: PLC0415 - with the others
        from log_format.ids import random_id  # noqa: PLC0415 - with the others
        from log_format.inspection.diagnosis import diagnose  # noqa: PLC0415 - needs pyarrow
        from log_format.stores import open_store  # noqa: PLC0415 - only here the store itself is read
    opened = open_store(store, must_exist=True)
    return diagnose(opened, SystemClock(), random_id, is_reader=is_reader)


def _of_gateway(url: str | None, token_file: Path | None, timeout_ms: float) -> Iterator[Finding]:
    """Yield whether the gateway can write: it may have other credentials, and another disk, than this program."""
    what = "gateway"
    if url is None:
        return
    with Admin(url, token_file=token_file, timeout_ms=timeout_ms) as admin:
        try:
            failing = admin.cluster().failing_writes
        except TidelogError as error:
            yield poor(
                what, f"{url} was not asked whether it can write: {sentence(error)}", "Is a gateway running there?"
            )
            return
    if failing is None:
        yield good(what, f"{url} can write.")
    else:
        advice = (
            "Its log has the store's own words. Compare its credentials, and the room on its disk, with this program's."
        )
        yield bad(what, f"Writes of {url} {failing_text(failing)}.", advice)


def _security_findings(url: str | None, token_file: Path | None, timeout_ms: float) -> Iterator[Finding]:
    yield from check_settings(os.environ)
    # A token must not be sent over plain HTTP to another machine: addresses are checked without it.
    anonymous = Credentials(environment={name: each for name, each in os.environ.items() if "TOKEN" not in name})
    urls = Endpoints(url, anonymous).urls
    for each in urls:
        yield from check_address(each, anonymous)
        yield from check_gateway(each, anonymous)
    try:
        admin = Admin(url, token_file=token_file, timeout_ms=timeout_ms)
    except ValueError as error:
        said = f"Tokens and ACLs were not checked: {error}"
        yield bad("rights", said, "Reach the gateway by https:// or on its own machine.")
        return
    with admin:
        yield from check_rights(admin, urls[0])


def _shown(found: Iterator[Finding], show: Callable[[Finding], None]) -> list[Finding]:
    """Show each finding as soon as it is made, and return all of them."""
    findings = []
    for finding in found:
        findings.append(finding)
        show(finding)
    return findings


def _quiet(_: Finding) -> None:
    """Show nothing: programs get all findings together."""


def _show(finding: Finding) -> None:
    console = output()
    said = visible_text(f"{finding.verdict:4}  {finding.what}: {finding.said}")
    console.print(said, style=_STYLES[finding.verdict], markup=False)
    if finding.advice:
        console.print(f"      {finding.advice}", markup=False)
