# A gateway: docker build -f infra/docker/gateway.Dockerfile -t tidelog-gateway .
#
# Two stages: pip and the sources stay in the first. Every package has the version and hash of gateway.lock.
# It runs as user 10001 and writes nothing, so the root may be read-only (a directory store needs a volume).

ARG BASE=python:3.13.7-slim-bookworm@sha256:adafcc17694d715c905b4c7bebd96907a1fd5cf183395f0ebc4d3428bd22d92d
# hadolint ignore=DL3006
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*
COPY infra/docker/build.lock infra/docker/gateway.lock ./
RUN python -m venv /opt/build && /opt/build/bin/pip install --quiet --require-hashes -r build.lock
RUN python -m venv --without-pip /opt/tidelog && /opt/build/bin/pip --python /opt/tidelog install --quiet --require-hashes --no-compile -r gateway.lock
COPY pyproject.toml README.md LICENSE infra/docker/slim.sh infra/docker/imports.py ./
COPY compaction compaction
COPY gateway gateway
COPY log_format log_format
COPY spark_pipeline spark_pipeline
COPY tidelog tidelog
RUN /opt/build/bin/python -m hatchling build -t wheel -d dist && /opt/build/bin/pip --python /opt/tidelog install --quiet --no-deps dist/tidelog-*.whl
RUN /opt/build/bin/pip --python /opt/tidelog check && sh slim.sh /opt/tidelog/lib gateway && LD_BIND_NOW=1 /opt/tidelog/bin/python imports.py

# hadolint ignore=DL3006
FROM ${BASE}
RUN useradd --uid 10001 --no-create-home tidelog
COPY --from=build /opt/tidelog /opt/tidelog
COPY infra/docker/gateway-entrypoint.sh /opt/tidelog/bin/gateway-entrypoint
ENV PATH=/opt/tidelog/bin:$PATH PYTHONDONTWRITEBYTECODE=1 TIDELOG_HOST=0.0.0.0 TIDELOG_PORT=8080 \
    TIDELOG_OPS_HOST=0.0.0.0 TIDELOG_OPS_PORT=8081
USER 10001:10001
# 8080 is for clients; 8081 is for operators: probes and metrics, which clients do not need. 9092 is for Kafka's clients, where
# GATEWAY_KAFKA_PORT names it.
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"TIDELOG_OPS_PORT\"]}/readyz', timeout=4)"]
ENTRYPOINT ["sh", "/opt/tidelog/bin/gateway-entrypoint"]
