"""Verification of a JWT: whether an issuer's key signed it for this service, and whom it names. Pure, and blocks for some 100 µs.

1. Only algorithms of the settings, all asymmetric, are accepted, and only with a key that is made for them: an HMAC by a public
   key proves nothing.
2. ``iss`` and ``aud`` must be the settings', ``exp`` must be present and not be past by more than ``SKEW_MS``; ``nbf`` likewise.
3. No JWT is ``User:bootstrap``: an issuer's users may choose their names.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jwt
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from gateway.access.caller import Caller, InvalidCredential
from gateway.access.rights import BOOTSTRAP
from gateway.http.fields import is_identifier

SKEW_MS: Final = 60_000
KEYS_MAX: Final = 100
_TIME_MAX: Final = 253_402_300_799
_KINDS: Final[Mapping[str, Any]] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
_PRIVATE: Final = {"d", "p", "q", "dp", "dq", "qi", "oth"}
_KIND_OF: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_DECODER: Final = jwt.PyJWT(
    options={
        "require": ["exp", "iss", "aud"],
        "enforce_minimum_key_length": True,
        "verify_exp": False,
        "verify_nbf": False,
        "verify_iat": False,
    }
)
"""Decoder of JWTs. Times are checked here instead, by the gateway's clock."""


class UnknownKey(InvalidCredential):
    """No known key has the token's key id: the issuer may have a new one."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key. ``algorithm`` None: it is valid for each algorithm of its kind."""

    id: str | None
    kind: str
    algorithm: str | None
    material: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtRules:
    """Requirements of the settings on a JWT."""

    issuer: str
    audience: str
    algorithms: Collection[str]
    principal_claim: str
    groups_claim: str


def parse_keys(document: object) -> list[Key]:
    """Return the keys for signatures in a JWKS, without those of unknown kinds. Raise ``ValueError`` for another document."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError("the key set is no JWKS of a hundred keys at most")
    keys: list[Key] = []
    for entry in listed:
        kind = _text(entry.get("kty")) if isinstance(entry, dict) else None
        if kind is None or kind not in _KINDS or entry.get("use", "sig") != "sig":
            continue
        try:
            material = _KINDS[kind].from_jwk({name: entry[name] for name in entry.keys() - _PRIVATE})
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        keys.append(Key(_text(entry.get("kid")), kind, _text(entry.get("alg")), material))
    return keys


def verify_token(token: str, keys: Sequence[Key], rules: JwtRules, now_ms: int) -> Caller:
    """Return the caller whom the token names. Raise ``InvalidCredential``, ``UnknownKey``."""
    try:
        header = jwt.get_unverified_header(token)
        key, algorithm = _key_of(header, keys, rules)
        claims: dict[str, Any] = _DECODER.decode(
            token, key=key.material, algorithms=[algorithm], audience=rules.audience, issuer=rules.issuer
        )
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidCredential(f"{type(error).__name__}: {error}") from error
    expires_ms = _time_ms(claims.get("exp"))
    if now_ms > expires_ms + SKEW_MS:
        raise InvalidCredential("it has expired")
    if "nbf" in claims and now_ms < _time_ms(claims["nbf"]) - SKEW_MS:
        raise InvalidCredential("it is not valid yet")
    principal = _principal(claims.get(rules.principal_claim))
    return Caller(principal, _groups(claims.get(rules.groups_claim)), "jwt", None, expires_ms)


def _key_of(header: Mapping[str, Any], keys: Sequence[Key], rules: JwtRules) -> tuple[Key, str]:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in rules.algorithms:
        raise InvalidCredential("its algorithm is not among the settings'")
    kind, key_id = _KIND_OF[algorithm[:2]], header.get("kid")
    fit = [key for key in keys if key.kind == kind and key.algorithm in (None, algorithm)]
    named = fit if key_id is None else [key for key in fit if key.id == key_id]
    if len(named) == 1:
        return named[0], algorithm
    if key_id is None:
        raise InvalidCredential("it names no key, and there is not exactly one")
    raise UnknownKey("no key has its id")


def _principal(claim: object) -> str:
    if not isinstance(claim, str) or not is_identifier(claim):
        raise InvalidCredential("its claim of the principal is no name")
    principal = f"User:{claim}"
    if principal == BOOTSTRAP:
        raise InvalidCredential("it claims to be the bootstrap user")
    return principal


def _groups(claim: object) -> tuple[str, ...]:
    names = [] if claim is None else [claim] if isinstance(claim, str) else claim
    if not isinstance(names, list):
        raise InvalidCredential("its claim of groups is no list")
    # A group that is not a valid name is left out: no ACL can name it.
    return tuple(dict.fromkeys(f"Group:{name}" for name in names if isinstance(name, str) and is_identifier(name)))


def _time_ms(claim: object) -> int:
    if isinstance(claim, bool) or not isinstance(claim, int | float) or not math.isfinite(claim):
        raise InvalidCredential("a time in it is no number")
    if not 0 <= claim <= _TIME_MAX:
        raise InvalidCredential("a time in it is out of range")
    return int(claim * 1000)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
