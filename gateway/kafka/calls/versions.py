"""ApiVersions: which requests are served, in which versions. A request in an unknown version gets the answer of version 0.

Source: KIP-35, KIP-511, KIP-584 (features).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.call import Answer, KafkaCall

API_VERSIONS: Final = 18
SHARE_VERSION: Final = "share.version"
"""Kafka's feature flag for share groups. Some clients check whether it is enabled."""
_SOFTWARE_MAX: Final = 64


async def api_versions(call: KafkaCall, request: Any) -> Answer:
    """Answer with the served requests and versions; remember the client's library."""
    call.session.software = getattr(request, "client_software_name", "")[:_SOFTWARE_MAX]
    return versions_answer(call, KafkaError.none)


def versions_answer(call: KafkaCall, error: KafkaError) -> Answer:
    """Return the answer, also if the request's version is not served: ``call.version`` is then 0."""
    return call.answer(
        error_code=error,
        api_keys=[
            {
                "api_key": key,
                "min_version": served.version_min if served.listed_version_min is None else served.listed_version_min,
                "max_version": served.version_max,
            }
            for key, served in sorted(call.calls.items())
        ],
        supported_features=[{"name": SHARE_VERSION, "min_version": 1, "max_version": 1}],
        finalized_features_epoch=0,
        finalized_features=[{"name": SHARE_VERSION, "max_version_level": 1, "min_version_level": 1}],
    )
