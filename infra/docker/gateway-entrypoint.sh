#!/bin/sh
# Starts the gateway in this process, so that signals reach it. The other gateways reach it by the container's own address,
# unless TIDELOG_ADVERTISED_URL says otherwise.
set -eu

if [ -z "${TIDELOG_ADVERTISED_URL:-}" ]; then
    address=$(hostname -i)
    TIDELOG_ADVERTISED_URL="http://${address%% *}:${TIDELOG_PORT:-8080}"
    export TIDELOG_ADVERTISED_URL
fi
exec python -m gateway "$@"
