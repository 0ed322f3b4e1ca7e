"""``tidelog credentials``: temporary credentials for direct access to the store."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Literal

import typer

from tidelog.cli.sinks.secret_file import others_may_read
from tidelog.cli.terminal.admin_call import AdminCall
from tidelog.cli.terminal.console import note, print_json
from tidelog.cli.terminal.durations import in_seconds
from tidelog.cli.terminal.names import TopicsArgument
from tidelog.cli.terminal.tables import time_text


def credentials(
    topics: TopicsArgument,
    *,
    access: Annotated[
        Literal["read", "append"], typer.Option(help="append may put segments, but read nothing and commit nothing.")
    ] = "read",
    duration: Annotated[
        float,
        typer.Option(
            metavar="DURATION",
            parser=in_seconds(least=900, most=3600),
            help="How long the credentials are valid: 15m to 1h.",
        ),
    ] = 900,
    call: AdminCall,
) -> None:
    """Get temporary credentials of the store for the tables of 1 to 20 topics, as a shell's exports.

    \b
    Examples:
      eval "$(tidelog credentials orders clicks)"
      tidelog credentials orders --access append --duration 1h --json
    """
    with call.admin() as admin:
        given = admin.store_credentials(topics, access=access, duration_s=round(duration))
        if call.as_json:
            print_json(given)
            return
        variables = {
            "AWS_ACCESS_KEY_ID": given.access_key_id,
            "AWS_SECRET_ACCESS_KEY": given.secret_access_key,
            "AWS_SESSION_TOKEN": given.session_token,
            "AWS_REGION": given.region,
            "AWS_ENDPOINT_URL": given.endpoint_url,
        }
        for name, value in variables.items():
            if value is not None:
                sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
        for each in given.topics:
            note(f"{each.topic}  {each.table_uri}")
        note(f"They expire at {time_text(given.expires_at)}.")
        if others_may_read(sys.stdout):
            note("Other users can read the file with the credentials: run 'chmod 600' on it now.")
