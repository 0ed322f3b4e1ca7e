"""``tidelog whoami``: who the gateway takes the caller for."""

from __future__ import annotations

from datetime import UTC, datetime

from tidelog.admin import Admin
from tidelog.cli.terminal.console import (
    ADMIN_TIMEOUT_S,
    JsonOption,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    output,
    print_json,
    reporting,
)


def whoami(
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = ADMIN_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Show who the gateway takes you for, by which proof, and until when.

    \b
    Examples:
      tidelog whoami
      tidelog whoami --json
    """
    with reporting(as_json=as_json), Admin(url, token_file=token_file, timeout_ms=timeout * 1000) as admin:
        caller = admin.whoami()
        if as_json:
            print_json(caller)
            return
        rights = "super user: may do everything" if caller.super_user else "as the ACLs say"
        proof = (
            "none: the gateway runs without authentication"
            if caller.authentication == "none"
            else caller.authentication
        )
        lines = {
            "principal": caller.principal,
            "groups": " ".join(caller.groups),
            "roles": " ".join(caller.roles),
            "rights": rights,
            "proof": proof if caller.token_id is None else f"{proof} {caller.token_id}",
            "until": "" if caller.expires_at is None else _time(caller.expires_at),
        }
        for name, text in lines.items():
            if text:
                output().print(f"{name:9}  {text}", markup=False)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
