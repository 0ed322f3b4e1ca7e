#!/bin/sh
# Starts the gateway in this process, so that signals reach it. Other gateways use the container's own address, unless
# TIDELOG_ADVERTISED_URL names another URL or GATEWAY_ADDRESS another address.
set -eu

# Where no file can be mounted (ECS), the certificate, its chain and its key come in one variable. All gateways share it, so
# each also trusts the others by it.
if [ -n "${GATEWAY_TLS_PEM:-}" ]; then
    pem=${TMPDIR:-/dev/shm}/tidelog-tls.pem
    (umask 077 && printf '%s\n' "$GATEWAY_TLS_PEM" > "$pem")
    unset GATEWAY_TLS_PEM
    export TIDELOG_TLS_CERT="$pem" TIDELOG_TLS_KEY="$pem" TIDELOG_TLS_CA="${TIDELOG_TLS_CA:-$pem}"
fi
# The same for the two secrets of authentication. No program of this container keeps them in its environment.
if [ -n "${GATEWAY_BOOTSTRAP_TOKEN:-}" ]; then
    file=${TMPDIR:-/dev/shm}/tidelog-bootstrap-token
    (umask 077 && printf '%s\n' "$GATEWAY_BOOTSTRAP_TOKEN" > "$file")
    export TIDELOG_BOOTSTRAP_TOKEN_FILE="$file"
fi
if [ -n "${GATEWAY_CLUSTER_KEY:-}" ]; then
    file=${TMPDIR:-/dev/shm}/tidelog-cluster-key
    (umask 077 && printf '%s\n' "$GATEWAY_CLUSTER_KEY" > "$file")
    export TIDELOG_CLUSTER_KEY_FILE="$file"
fi
unset GATEWAY_BOOTSTRAP_TOKEN GATEWAY_CLUSTER_KEY
# ECS says in which zone the task runs. A gateway that is not told says none.
if [ -z "${TIDELOG_ZONE:-}" ] && [ -n "${ECS_CONTAINER_METADATA_URI_V4:-}" ]; then
    TIDELOG_ZONE=$(python -c 'import json, sys, urllib.request
print(json.load(urllib.request.urlopen(sys.argv[1] + "/task", timeout=2)).get("AvailabilityZone", ""))' \
        "$ECS_CONTAINER_METADATA_URI_V4" 2>/dev/null) || TIDELOG_ZONE=""
    export TIDELOG_ZONE
fi
# A container with addresses of both kinds is reached by IPv4. With none of IPv4, nobody reaches what listens on 0.0.0.0.
for address in ${GATEWAY_ADDRESS:-$(hostname -i)}; do
    case $address in *:*) ;; *) break ;; esac
done
unset GATEWAY_ADDRESS
every=0.0.0.0
case $address in
    *:*)
        address="[$address]" every="[::]"
        if [ "${TIDELOG_HOST:-}" = 0.0.0.0 ]; then export TIDELOG_HOST=::; fi
        if [ "${TIDELOG_OPS_HOST:-}" = 0.0.0.0 ]; then export TIDELOG_OPS_HOST=::; fi
        ;;
esac
if [ -z "${TIDELOG_ADVERTISED_URL:-}" ]; then
    scheme=${TIDELOG_TLS_CERT:+https}
    TIDELOG_ADVERTISED_URL="${scheme:-http}://$address:${TIDELOG_PORT:-8080}"
    export TIDELOG_ADVERTISED_URL
fi
# A listener for Kafka's clients, which reach each gateway by itself: none unless a port is named.
if [ -n "${GATEWAY_KAFKA_PORT:-}" ]; then
    export TIDELOG_KAFKA_LISTEN="$every:$GATEWAY_KAFKA_PORT"
    export TIDELOG_KAFKA_ADVERTISED="${TIDELOG_KAFKA_ADVERTISED:-$address:$GATEWAY_KAFKA_PORT}"
    unset GATEWAY_KAFKA_PORT
fi
exec python -m gateway "$@"
