"""Authentication: from the ``Authorization`` header to the caller, or to the only 401.

1. Exactly one header is accepted, ``Bearer`` and a credential of at most ``CREDENTIAL_BYTES_MAX``. Every fault gets the same
   answer.
2. A token is verified by its secret's SHA-256, compared in constant time. A verified token is cached while its row is in the
   table and its secret has not expired. So a revoked token ends with the next look at the table.

Used on the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.access.caller import Caller, InvalidCredential
from gateway.access.rights import BOOTSTRAP, REMEMBERED_MAX, Rights
from gateway.access.token import BOOTSTRAP_ID, TOKEN_BEGINS, Token, parse_token
from gateway.network.certificate import ClientCertificate
from gateway.system_tables.access import AccessTable
from log_format.access.row import CredentialRow, Secret
from log_format.clock import Clock
from log_format.errors import ErrorCode, RequestRefused

if TYPE_CHECKING:
    from gateway.access.jwt_callers import JwtCallers  # its libraries are loaded only if an issuer is set

CREDENTIAL_BYTES_MAX: Final = 8 * 1024
_HEADER: Final = b"authorization"
_SCHEME: Final = b"bearer "
_log = logging.getLogger("gateway.access")
Headers = Iterable[tuple[bytes, bytes]]


class Unauthenticated(RequestRefused, code=ErrorCode.UNAUTHENTICATED):
    """401: one text, whatever is wrong with the credential."""

    def __init__(self) -> None:
        super().__init__("A valid credential is needed: one header `Authorization: Bearer TOKEN`.")


class _VerifiedToken(NamedTuple):
    """A verified token, valid while its row is in the table."""

    row: CredentialRow
    expires_at_ms: int
    caller: Caller


class Authentication:
    """Authentication of callers. ``bootstrap``: token of the file ``bootstrap_token_file``; ``jwts``: of the issuer. None:
    there is none."""

    def __init__(
        self,
        table: AccessTable,
        rights: Rights,
        *,
        bootstrap: Token | None,
        jwts: JwtCallers | None = None,
        clock: Clock,
    ) -> None:
        self._table = table
        self._rights = rights
        self._bootstrap = bootstrap
        self._jwts = jwts
        self._clock = clock
        self._seen: dict[bytes, _VerifiedToken] = {}
        """Verified tokens. A look-up takes no longer for one that is nearly right: dictionaries compare keyed hashes first."""

    def authenticate_now(self, shown: ClientCertificate | None, headers: Headers) -> Caller | None:
        """Return the caller of a request if that takes no waiting; None if ``caller`` has to be asked. Raise ``Unauthenticated``,
        ``BackOff``.

        ``shown``: the connection's certificate.
        """
        return (
            self.authenticate_certificate(shown, headers) or self.find_known(headers)
            if self._rights.is_recent
            else None
        )

    async def authenticate(self, shown: ClientCertificate | None, headers: Headers) -> Caller:
        """Return the caller as ``at_once`` does, after waiting for the access table or for the verification of a JWT."""
        await self._rights.refresh_if_old()
        caller = self.authenticate_certificate(shown, headers) or self.find_known(headers)
        return await self.verify(headers) if caller is None else caller

    def find_known(self, headers: Headers) -> Caller | None:
        """Return the caller if that takes no waiting; None if ``verified`` has to be asked. Raise ``Unauthenticated``,
        ``BackOff``."""
        credential = _credential(headers)
        if not credential.startswith(TOKEN_BEGINS):
            return self._known_jwt(credential)
        seen = self._seen.get(credential)
        rows, now_ms = self._table.state.credentials, self._clock.now_ms()
        if seen is not None and rows.get(seen.row.id) is seen.row and now_ms < seen.expires_at_ms:
            self._rights.check_age()
            return seen.caller
        token = parse_token(credential)
        if token is None:
            return self._known_jwt(credential)
        if token.id == BOOTSTRAP_ID:
            return self._bootstrapped(token)
        self._rights.check_age()
        row = rows.get(token.id)
        for secret in () if row is None else row.secrets:
            if compare_digest(secret.sha256, token.sha256) and now_ms < secret.expires_at_ms:
                assert row is not None
                return self._remembered(credential, row, secret)
        self._rights.check_recent()  # the token may have been created or rotated since
        raise Unauthenticated

    def authenticate_certificate(self, shown: ClientCertificate | None, headers: Headers) -> Caller | None:
        """Return the caller that a client certificate names; None without one, and if ``headers`` have a credential. Raise
        ``Unauthenticated`` for a certificate that has expired since the handshake; ``BackOff``."""
        if shown is None or any(name == _HEADER for name, _ in headers):
            return None
        if self._clock.now_ms() >= shown.expires_at_ms:
            raise Unauthenticated
        self._rights.check_age()
        return Caller(f"User:{shown.uri}", authentication="certificate", expires_at_ms=shown.expires_at_ms)

    def revalidate(self, caller: Caller) -> Caller:
        """Return a caller that was authenticated earlier, here or at another gateway, as it would be now: a rotation may have
        given its secret an earlier end. Raise ``Unauthenticated``; ``BackOff`` if that is not known."""
        now_ms = self._clock.now_ms()
        if caller.expires_at_ms is not None and now_ms >= caller.expires_at_ms:
            raise Unauthenticated
        if caller.authentication != "token" or caller.token_id is None or caller.token_id == BOOTSTRAP_ID:
            return caller
        self._rights.check_age()
        row = self._table.state.credentials.get(caller.token_id)
        for secret in () if row is None else row.secrets:
            if caller.secret is None:  # a gateway of an older release does not say which one
                return caller
            if secret.sha256 == caller.secret and now_ms < secret.expires_at_ms:
                return replace(caller, expires_at_ms=secret.expires_at_ms)
        raise Unauthenticated

    async def verify(self, headers: Headers) -> Caller:
        """Return the caller by a credential for which ``known`` returns None. Raise as ``known`` does."""
        if self._jwts is None:
            raise Unauthenticated
        try:
            caller = await self._jwts.verify(_credential(headers))
        except InvalidCredential as problem:
            _log.debug("a JWT proves nothing: %s", problem)
            raise Unauthenticated from None
        self._rights.check_age()
        return caller

    def _known_jwt(self, credential: bytes) -> Caller | None:
        if self._jwts is None:
            raise Unauthenticated
        caller = self._jwts.find_known(credential)
        if caller is not None:
            self._rights.check_age()
        return caller

    def _bootstrapped(self, token: Token) -> Caller:
        if self._bootstrap is None or not compare_digest(self._bootstrap.sha256, token.sha256):
            raise Unauthenticated
        self._rights.check_age()
        return _BOOTSTRAP_CALLER

    def _remembered(self, credential: bytes, row: CredentialRow, secret: Secret) -> Caller:
        if len(self._seen) >= REMEMBERED_MAX:
            self._seen.clear()
        caller = Caller(row.principal, row.groups, "token", row.id, secret.expires_at_ms, secret.sha256)
        self._seen[credential] = _VerifiedToken(row, secret.expires_at_ms, caller)
        return caller


_BOOTSTRAP_CALLER: Final = Caller(BOOTSTRAP, (), "token", BOOTSTRAP_ID)


def _credential(headers: Headers) -> bytes:
    """Return the credential in the only header. Raise ``Unauthenticated``."""
    found: bytes | None = None
    for name, value in headers:
        if name == _HEADER:
            if found is not None:
                raise Unauthenticated
            found = value
    if found is None or found[:7].lower() != _SCHEME:
        raise Unauthenticated
    credential = found[7:].strip(b" ")
    if len(credential) > CREDENTIAL_BYTES_MAX:
        raise Unauthenticated
    return credential
