"""SaslHandshake, SaslAuthenticate: a client authenticates its connection, and again before its credential expires (KIP-368).

1. Every fault of a credential gets the same answer, after a pause. Each is in the audit trail as a failed login.
2. If a credential cannot be checked now (the access table or the issuer's keys are unavailable), the connection is closed:
   clients reconnect, whereas an error would make them give up.
3. A session lasts as long as its credential. A client that does not authenticate again in time is disconnected at its next
   request.
4. A connection belongs to one user: it is refused when its client authenticates as another user.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from kio.schema.errors import ErrorCode as KafkaError

from gateway.access.authentication import Unauthenticated
from gateway.access.caller import Caller
from gateway.kafka.call import Answer, CloseConnection, KafkaCall
from gateway.kafka.sasl import MECHANISMS, Mechanism, credential_of
from log_format.errors import BackOff

FAILED_PAUSE_MS: Final = 100
"""Pause before a failed login is answered, like a broker's ``connection.failed.authentication.delay.ms``."""
FAILURES_MAX: Final = 3
"""Failed logins after which a connection is closed."""
_CREDENTIAL_NEEDED: Final = "A valid credential is needed: PLAIN with a token as password, or OAUTHBEARER with a JWT."


async def sasl_handshake(call: KafkaCall, request: Any) -> Answer:
    """Remember the mechanism of the client's next SaslAuthenticate."""
    login = call.session.login
    login.mechanism = None
    if call.gateway.authentication is None:
        return call.answer(error_code=KafkaError.illegal_sasl_state, mechanisms=())
    if request.mechanism not in MECHANISMS:
        return call.answer(error_code=KafkaError.unsupported_sasl_mechanism, mechanisms=MECHANISMS)
    login.mechanism = cast("Mechanism", request.mechanism)
    return call.answer(error_code=KafkaError.none, mechanisms=MECHANISMS)


async def sasl_authenticate(call: KafkaCall, request: Any) -> Answer:
    """Authenticate the client by its credential. Raise ``CloseConnection`` if the credential cannot be checked now, after too
    many failures, or if the caller has too many connections."""
    session, authentication = call.session, call.gateway.authentication
    mechanism, session.login.mechanism = session.login.mechanism, None
    if authentication is None or mechanism is None:
        said = "SaslHandshake comes first." if authentication else "The gateway runs with auth=off."
        return _fail(call, KafkaError.illegal_sasl_state, said)
    try:
        headers = [(b"authorization", b"Bearer " + credential_of(mechanism, request.auth_bytes))]
        caller = authentication.find_known(headers) or await authentication.verify(headers)
        if session.caller is not None and session.caller.principal != caller.principal:
            raise Unauthenticated
    except Unauthenticated:
        return await _refused(call)
    except BackOff as problem:
        raise CloseConnection(f"a credential can't be judged now: {problem.detail}") from problem
    session.enter(caller)
    return call.answer(
        error_code=KafkaError.none,
        error_message=None,
        auth_bytes=b"",
        session_lifetime=_lifetime_ms(call, caller),
    )


async def _refused(call: KafkaCall) -> Answer:
    call.session.login.failures += 1
    recording = call.gateway.recording
    if recording is not None:
        recording.note(call.event("failed_login"))
    await asyncio.sleep(FAILED_PAUSE_MS / 1000)
    if call.session.login.failures >= FAILURES_MAX:
        raise CloseConnection("too many failed logins")
    return _fail(call, KafkaError.sasl_authentication_failed, _CREDENTIAL_NEEDED)


def _fail(call: KafkaCall, code: KafkaError, said: str) -> Answer:
    return call.answer(error_code=code, error_message=said, auth_bytes=b"")


def _lifetime_ms(call: KafkaCall, caller: Caller) -> int:
    """Return how long the session lasts; 0 if the credential does not expire."""
    if caller.expires_at_ms is None:
        return 0
    return max(1, caller.expires_at_ms - call.gateway.clock.now_ms())
