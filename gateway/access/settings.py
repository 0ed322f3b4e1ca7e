"""The settings of authentication, authorization and audit; part of ``gateway.settings``."""

from __future__ import annotations

from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, model_validator

from gateway.network.hosts import is_loopback

PRINCIPALS_PATTERN: Final = r"^(\s*User:[^\s,][^,]*(,\s*User:[^\s,][^,]*)*)?$"
ISSUER_PATTERN: Final = r"^https?://[^\s?#]{1,500}$"
SCOPE_PATTERN: Final = r"^[!#-\[\]-~]{1,255}( [!#-\[\]-~]{1,255}){0,9}$"
ALGORITHMS_PATTERN: Final = r"^\s*(RS|PS|ES)(256|384|512)(\s*,\s*((RS|PS|ES)(256|384|512)|EdDSA))*\s*$|^\s*EdDSA\s*$"


class AccessSettings(BaseModel):
    """Settings of authentication, authorization and audit. Each field says what changing it does."""

    auth: Literal["off", "on"] = Field(
        default="off",
        description="on: each request needs a credential, and the rights of its principal are enforced. off: every client"
        " may do all.",
    )
    insecure: bool = Field(
        default=False, description="true: auth may be off although host can be reached from other machines."
    )
    bootstrap_token_file: str | None = Field(
        default=None,
        min_length=1,
        description="File of one line, tl_bootstrap_ and 43 characters of base64url (256 random bits), that its owner alone can"
        " read: the token of User:bootstrap, which may do all and makes the first tokens.",
    )
    super_users: str = Field(
        default="",
        pattern=PRINCIPALS_PATTERN,
        description="Principals that may do all, comma-separated: User:alice,User:bob.",
    )
    audit: Literal["off", "on", "required"] | None = Field(
        default=None,
        description="Whether denials, failed logins, administration and vended credentials become records of the topic __audit."
        " required: administration is recorded first, and refused (503) where that can't be. Default: on with auth=on, else off.",
    )
    oidc_issuer: str | None = Field(
        default=None,
        pattern=ISSUER_PATTERN,
        description="URL of an OpenID Connect issuer whose JWTs are credentials, as their iss has it.",
    )
    oidc_audience: str | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="What the aud of a JWT must name. Needed with oidc_issuer.",
    )
    oidc_algorithms: str = Field(
        default="RS256,ES256",
        pattern=ALGORITHMS_PATTERN,
        description="Algorithms of JWTs' signatures, comma-separated; asymmetric ones only.",
    )
    oidc_principal_claim: str = Field(
        default="sub", min_length=1, max_length=255, description="Claim of a JWT with the user's name: User:<value>."
    )
    oidc_groups_claim: str = Field(
        default="groups",
        min_length=1,
        max_length=255,
        description="Claim with the names of the user's groups: Group:<value>.",
    )
    oidc_client_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="Id of a public client of the issuer, for people: the console offers a login there (code with PKCE).",
    )
    oidc_scope: str = Field(
        default="openid",
        pattern=SCOPE_PATTERN,
        description="What the console's login asks the issuer for, separated by spaces.",
    )

    @model_validator(mode="after")
    def _knows_whom_it_audits(self) -> Self:
        if self.auth == "off" and self.audit in ("on", "required"):
            raise ValueError(f"audit={self.audit} needs auth=on: without it the gateway knows no callers")
        return self

    @property
    def audit_mode(self) -> Literal["off", "on", "required"]:
        """``audit``, or its default."""
        return self.audit or ("off" if self.auth == "off" else "on")

    @model_validator(mode="after")
    def _is_for_this_service(self) -> Self:
        if self.oidc_issuer is not None and self.oidc_audience is None:
            raise ValueError("oidc_issuer needs oidc_audience: else JWTs made for other services would be taken")
        if self.oidc_issuer is None and self.oidc_client_id is not None:
            raise ValueError("oidc_client_id needs oidc_issuer: that is where the console's login leads")
        if self.oidc_issuer is not None and self.oidc_issuer.startswith("http://") and not self.insecure:
            host = urlsplit(self.oidc_issuer).hostname or ""
            if not is_loopback(host):
                raise ValueError("oidc_issuer must be https: else its keys are whose network they come through")
        return self
