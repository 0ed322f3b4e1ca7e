#!/bin/sh
# Starts the gateway in this process, so that signals reach it. Other gateways use the container's own address, unless
# TIDELOG_ADVERTISED_URL names another.
set -eu

# Where no file can be mounted (ECS), the certificate, its chain and its key come in one variable. All gateways share it, so
# each also trusts the others by it.
if [ -n "${GATEWAY_TLS_PEM:-}" ]; then
    pem=${TMPDIR:-/dev/shm}/tidelog-tls.pem
    (umask 077 && printf '%s\n' "$GATEWAY_TLS_PEM" > "$pem")
    unset GATEWAY_TLS_PEM
    export TIDELOG_TLS_CERT="$pem" TIDELOG_TLS_KEY="$pem" TIDELOG_TLS_CA="${TIDELOG_TLS_CA:-$pem}"
fi
if [ -z "${TIDELOG_ADVERTISED_URL:-}" ]; then
    address=$(hostname -i)
    scheme=${TIDELOG_TLS_CERT:+https}
    TIDELOG_ADVERTISED_URL="${scheme:-http}://${address%% *}:${TIDELOG_PORT:-8080}"
    export TIDELOG_ADVERTISED_URL
fi
exec python -m gateway "$@"
