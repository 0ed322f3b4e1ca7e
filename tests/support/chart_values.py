"""Values of the chart that tests try with the templates, and ``tests/infrastructure/rehearse_chart.py`` with Helm itself."""

from __future__ import annotations

from typing import Any, Final

Values = dict[str, Any]

STORE: Final = {"store": {"TIDELOG_STORE": "s3://logs/tidelog"}}
"""The one value that has no default."""
NO_AUTH: Final = {"auth": {"enabled": False}}
NO_TLS: Final = {**NO_AUTH, "tls": {"enabled": False}}
VOLUME: Final = {"volumes": [{"name": "ca", "configMap": {"name": "ca"}}]}
MOUNT: Final = {"volumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}]}
PLACED: Final = {
    "podAnnotations": {"prometheus.io/scrape": "false", "team.example.com/owner": "data"},
    "podLabels": {"team": "data"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3_000_000}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["amd64"]}]}]}}},
    "priorityClassName": "high",
    "roleAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/tidelog"},
}  # fmt: skip
SETTINGS: Final = {
    "TIDELOG_LOG_LEVEL": "info",
    "TIDELOG_KAFKA_CONNECTIONS_MAX": 2_000,
    "TIDELOG_MANIFEST_BYTES_MAX": 130_000_000,
    "TIDELOG_DRAIN_TIMEOUT_MS": 100_000,
    "TIDELOG_SUPER_USERS": 'User:"ü",User:<b>',
    "TIDELOG_JOURNALS": "off",
    "TIDELOG_ZONE": "a",
    "SOME_FRACTION": 0.00001,
}

ACCEPTED: Final[dict[str, Values]] = {
    "defaults": {},
    "settings": {
        "gateway": {"settings": SETTINGS},
        "store": {"AWS_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": 1_000_000},
    },
    "kafka": {"kafka": {"enabled": True}},
    "kafka with memory": {"kafka": {"enabled": True}, "gateway": {"memory": "3Gi"}},
    "no token": NO_AUTH,
    "no TLS": NO_TLS,
    "no TLS, a volume": {**NO_TLS, "gateway": {**VOLUME, **MOUNT}},
    "no bootstrap token": {"auth": {"bootstrapToken": False}},
    "placed": {
        "images": {"gateway": "r.example.com/g@sha256:" + "0" * 64, "pullSecrets": [{"name": "registry"}]},
        "gateway": {**PLACED, **VOLUME, **MOUNT, "cpu": 0.5, "serviceAnnotations": {"example.com/cost": 7}},
        "maintenance": {**PLACED, **VOLUME, **MOUNT, "cpu": 2},
    },
    "narrow": {"network": {"egress": [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": 9000}]}]}},
    "shut": {"network": {"egress": []}},
    "part of another chart": {"global": {"region": "eu"}, "enabled": True},
}
"""Values by what they are, over the chart's and ``STORE``."""

REFUSED: Final[dict[str, tuple[Values, str]]] = {
    "no bucket": ({"store": {"TIDELOG_STORE": ""}}, "store.TIDELOG_STORE is not set"),
    "off": (
        {"gateway": {"settings": {"TIDELOG_JOURNALS": False}}},
        "gateway.settings.TIDELOG_JOURNALS: without quotes off, no and false are one value in YAML",
    ),
    "yes in the store's": ({"store": {"X": True}}, "store.X: without quotes on, yes and true are one value in YAML"),
    "annotation": ({"gateway": {"podAnnotations": {"a": True}}}, "gateway.podAnnotations.a: without quotes"),
    "token without TLS": ({"tls": {"enabled": False}}, "auth.enabled needs tls.enabled"),
    "twice": ({"store": {"TIDELOG_LOG_LEVEL": "info"}}, "Set gateway.settings.TIDELOG_LOG_LEVEL"),
    "auth": ({"gateway": {"settings": {"TIDELOG_AUTH": "off"}}}, "TIDELOG_AUTH can't be set: it is auth.enabled here"),
    "port": ({"gateway": {"settings": {"TIDELOG_PORT": 80}}}, "TIDELOG_PORT can't be set"),
    "certificate": ({**NO_TLS, "gateway": {"settings": {"TIDELOG_TLS_CERT": "/x"}}}, "needs tls.enabled"),
    "key of the store": ({"store": {"AWS_SECRET_ACCESS_KEY": "x"}}, "Put it into the secret tidelog-store"),
    "session's key": ({"gateway": {"settings": {"AWS_SESSION_TOKEN": "x"}}}, "into the secret tidelog-store"),
    "token": ({"gateway": {"settings": {"GATEWAY_BOOTSTRAP_TOKEN": "x"}}}, "into the secret tidelog-access"),
    "key of the cluster": ({"store": {"GATEWAY_CLUSTER_KEY": "x"}}, "into the secret tidelog-access"),
    "key of TLS": ({"gateway": {"settings": {"GATEWAY_TLS_PEM": "x"}}}, "into the secret tidelog-tls"),
    "more at least than at most": (
        {"gateway": {"replicasMin": 9}},
        "gateway.replicasMin is more than gateway.replicasMax",
    ),
    "selector": ({"maintenance": {"podLabels": {"app.kubernetes.io/name": "x"}}}, "podLabels can't have"),
}
"""Values by what is wrong with them, and what the chart says."""

UNFIT: Final[dict[str, tuple[Values, str]]] = {
    "unknown": ({"gateway": {"memry": "2Gi"}}, "/gateway"),
    "unknown group": ({"gatway": {}}, "additional properties 'gatway' not allowed"),
    "kafka's memory": ({"kafka": {"memory": "2Gi"}}, "/kafka"),
    "switch": ({"tls": {"enabled": "no"}}, "/tls/enabled"),
    "bytes": ({"gateway": {"memory": 1088}}, "/gateway/memory"),
    "half a gateway": ({"gateway": {"replicasMin": 1.5}}, "/gateway/replicasMin"),
    "nothing": ({"gateway": {"settings": {"TIDELOG_ZONE": None}}}, "/gateway/settings/TIDELOG_ZONE"),
    "more than a float": ({"gateway": {"settings": {"X": 2**60}}}, "/gateway/settings/X"),
    "no variable": ({"store": {"a b": "c"}}, "'a b' does not match"),
    "list": ({"gateway": {"tolerations": {"key": "spot"}}}, "/gateway/tolerations"),
}
"""Values that the schema refuses, and what Helm then says."""


def over(below: Values, above: Values) -> Values:
    """As Helm lays values over the chart's: groups name by name, lists as a whole."""
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, dict) and isinstance(below.get(name), dict)
        merged[name] = over(below[name], value) if both else value
    return merged
