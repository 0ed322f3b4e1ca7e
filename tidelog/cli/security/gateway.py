"""Checks of a gateway from outside: what clients may do without a credential, and with one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from log_format.errors import DECODE_ERRORS, TidelogError
from log_format.inspection.finding import Finding, bad, good, poor
from tidelog.admin import Admin
from tidelog.cli.terminal.tables import shortened
from tidelog.errors import Unauthenticated, Unauthorized
from tidelog.http.answer import AnswerLost, NeverSent
from tidelog.http.connection import Address
from tidelog.http.credentials import Credentials, is_private
from tidelog.types.access import AccessToken, Acl

_TIMEOUT_MS: Final = 5_000.0
_DAY_MS: Final = 86_400_000
LONG_MS: Final = 180 * _DAY_MS
"""Remaining lifetime above which a token has time to be lost unnoticed."""
SOON_MS: Final = 7 * _DAY_MS
"""Remaining lifetime below which a token will expire before anyone looks again."""
PRINCIPALS_MAX: Final = 100
"""Number of token owners that are tested, by one request each."""
_CHANGES: Final = ("All", "Write", "Create", "Delete", "Alter")


def check_gateway(url: str, credentials: Credentials) -> Iterator[Finding]:
    """Yield findings about requests without a credential. Raises nothing."""
    what = "authentication"
    try:
        status, body = _anonymous(url, "/v1/whoami", credentials)
    except (NeverSent, AnswerLost, ValueError) as error:
        yield bad(what, f"The gateway does not answer: {error}.", "Check the address, and that the gateway runs.")
        return
    if status == 401:
        yield good(what, f"{url} requires a token or certificate from everyone.")
        status, _ = _anonymous(url, "/metrics", credentials)
        if status == 200:
            advice = "Serve metrics only on the operations listener (ops_host, ops_port)."
            yield poor("metrics", f"{url}/metrics shows topics and counts to every client.", advice)
        return
    if status == 200 and b'"none"' in body:
        said = f"{url} runs with auth=off: every client that can reach it may do everything."
        advice = "Set auth=on and bootstrap_token_file, then create tokens (docs/security.md)."
        yield (poor if is_private(url) and not url.startswith("https") else bad)(what, said, advice)
        return
    advice = "Check the address: a gateway of this release answers 200 or 401 there."
    yield bad(what, f"{url} answers {status} to GET /v1/whoami: it is not a gateway with authentication.", advice)


def check_rights(admin: Admin, url: str) -> Iterator[Finding]:
    """Yield findings about tokens and ACLs, as far as the caller may see them. Raises nothing."""
    try:
        yield _peers(admin)
        caller = admin.whoami()
        if caller.authentication == "none":
            return
        tokens = admin.list_tokens()
        yield from _ends(tokens, time.time_ns() // 1_000_000)
        yield _super_users(admin, {caller.principal, *(each.principal for each in tokens)})
        yield from _wide(admin.list_acls(permission="allow"))
    except Unauthenticated:
        said = f"Tokens and ACLs of {url} were not checked: no valid token was given."
        yield poor("rights", said, "Give a token that may Alter the cluster: --token-file, TIDELOG_TOKEN_FILE.")
    except Unauthorized as error:
        said = f"Tokens and ACLs of {url} were not checked: this token may not {error.operation} the {error.resource_type}."
        yield poor("rights", said, "Give a token that may Alter the cluster.")
    except (*DECODE_ERRORS, TidelogError) as error:
        yield poor("rights", f"Tokens and ACLs of {url} could not be listed: {error}", "Try again.")


def _anonymous(url: str, path: str, credentials: Credentials) -> tuple[int, bytes]:
    address = Address(url, credentials.tls)
    try:
        answer = address.exchange("GET", path, body=None, headers={}, timeout_ms=_TIMEOUT_MS)
        return answer.status, answer.body
    finally:
        address.close()


def _peers(admin: Admin) -> Finding:
    """Check the addresses by which gateways and clients reach each gateway."""
    plain = [each.url for each in admin.cluster().gateways if not is_private(each.url)]
    if plain:
        advice = "Give every gateway tls_cert, tls_key and an advertised_url with https://."
        return poor("gateways", f"Gateways are reached by plain HTTP over the network: {shortened(plain)}.", advice)
    return good("gateways", "Gateways are reached by TLS, or on their own machine.")


def _ends(tokens: list[AccessToken], now_ms: int) -> Iterator[Finding]:
    what = "tokens"
    last = {each.id: max((secret.expires_at for secret in each.secrets), default=0) for each in tokens}
    names = {each.id: f"{each.id} ({each.principal})" for each in tokens}
    long = [names[token] for token, end in last.items() if end > now_ms + LONG_MS]
    soon = [names[token] for token, end in last.items() if now_ms < end <= now_ms + SOON_MS]
    if long:
        advice = "Rotate them with an earlier expiry: tidelog token rotate ID --expires 90d."
        yield poor(
            what, f"Tokens are valid for more than {LONG_MS // _DAY_MS} further days: {shortened(long)}.", advice
        )
    if soon:
        advice = "Rotate them before their programs are refused: tidelog token rotate ID."
        yield poor(what, f"Tokens expire within {SOON_MS // _DAY_MS} days: {shortened(soon)}.", advice)
    if not long and not soon:
        yield good(what, f"None of {len(tokens):,} tokens is valid for long, and none expires within days.")


def _super_users(admin: Admin, principals: set[str]) -> Finding:
    what = "super users"
    asked = sorted(principals)[:PRINCIPALS_MAX]
    mighty = [each for each in asked if admin.test_access(each, "Alter", "cluster", "cluster").reason == "super_user"]
    if mighty:
        advice = (
            "Remove them from super_users, and add ACLs for what they need. User:bootstrap is one as long as gateways have "
            "bootstrap_token_file."
        )
        return poor(what, f"These users of tokens are super users, whom no ACL restricts: {shortened(mighty)}.", advice)
    left = len(principals) - len(asked)
    return good(
        what, "No token belongs to a super user" + (f" ({left:,} more users were not checked)." if left else ".")
    )


def _wide(acls: list[Acl]) -> Iterator[Finding]:
    what = "ACLs"
    everyone = [each for each in acls if each.principal == "*"]
    changing = [_named(each) for each in everyone if each.operation in _CHANGES]
    reading = [_named(each) for each in everyone if each.operation not in _CHANGES]
    everything = [
        _named(each)
        for each in acls
        if each.principal != "*"
        and each.operation == "All"
        and (each.resource == "*" or each.resource_type == "cluster")
    ]
    if changing:
        advice = "Name the users, groups or roles that need it: tidelog acl remove --principal '*'."
        yield bad(what, f"Everyone with a token may change things: {shortened(changing)}.", advice)
    if reading:
        advice = "Name the users, groups or roles that need it, unless this is intended."
        yield poor(what, f"Everyone with a token may read: {shortened(reading)}.", advice)
    if everything:
        yield poor(what, f"These may do everything: {shortened(everything)}.", "Allow the operations that they need.")
    if not changing and not reading and not everything:
        yield good(what, f"None of {len(acls):,} ACLs allows something to everyone, or everything to someone.")


def _named(acl: Acl) -> str:
    return f"{acl.principal} {acl.operation} {acl.resource_type} {acl.resource}{'…' if acl.pattern == 'prefix' else ''}"
