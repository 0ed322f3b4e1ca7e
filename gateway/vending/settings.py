"""The settings of vended credentials; part of ``gateway.settings``."""

from __future__ import annotations

from pydantic import BaseModel, Field

from gateway.network.hosts import URL_PATTERN


class VendingSettings(BaseModel):
    """Settings of vended credentials. Each field says what changing it does."""

    vending_role_arn: str | None = Field(
        default=None,
        min_length=20,
        max_length=2048,
        description="ARN of the role that the gateway assumes for POST /v1/credentials; what is vended never has more rights. A"
        " server that has no roles (MinIO) takes any. Default: none, and nothing is vended.",
    )
    vending_sts_endpoint: str | None = Field(
        default=None,
        pattern=URL_PATTERN,
        description="URL of the token service. Default: AWS's, or the AWS_ENDPOINT_URL that the gateway's store has.",
    )
    vending_endpoint_url: str | None = Field(
        default=None,
        pattern=URL_PATTERN,
        description="endpoint_url of vended credentials: where programs reach the store. Default: the gateway's own way, null"
        " for AWS.",
    )
