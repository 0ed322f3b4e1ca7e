"""``tidelog whoami``: the identity by which the gateway knows the caller."""

from __future__ import annotations

from tidelog.cli.terminal.admin_call import AdminCall
from tidelog.cli.terminal.console import output, print_json
from tidelog.cli.terminal.tables import time_text


def whoami(call: AdminCall) -> None:
    """Show the user that the gateway knows you as, the credential that proves it, and its expiry.

    \b
    Examples:
      tidelog whoami
      tidelog whoami --json
    """
    with call.admin() as admin:
        caller = admin.whoami()
        if call.as_json:
            print_json(caller)
            return
        rights = "super user: may do everything" if caller.super_user else "as the ACLs say"
        proof = caller.authentication
        if proof == "none":
            rights, proof = "everything, as everyone", "none: the gateway runs without authentication"
        lines = {
            "principal": caller.principal,
            "groups": " ".join(caller.groups),
            "roles": " ".join(caller.roles),
            "rights": rights,
            "proof": proof if caller.token_id is None else f"{proof} {caller.token_id}",
            "until": "" if caller.expires_at is None else time_text(caller.expires_at),
        }
        for name, text in lines.items():
            if text:
                output().print(f"{name:9}  {text}", markup=False)
