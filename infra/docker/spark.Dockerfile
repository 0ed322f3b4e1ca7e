# Spark jobs and maintenance on one machine: docker build -f infra/docker/spark.Dockerfile -t tidelog-spark .
#
#   docker run tidelog-spark -m compaction --store s3://bucket/prefix --every 60s
#   docker run tidelog-spark -m spark_pipeline.jobs.flight_delays --store s3://bucket/prefix --topic flights --output out
#
# The jars are in the image, so that a job starts without a download. Spark writes only below /tmp: with a read-only root give it
# a tmpfs there.

ARG BASE=python:3.13.7-slim-bookworm@sha256:adafcc17694d715c905b4c7bebd96907a1fd5cf183395f0ebc4d3428bd22d92d
# hadolint ignore=DL3006
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore TIDELOG_CACHE=/opt/tidelog/cache
WORKDIR /build
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends binutils openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
COPY infra/docker/build.lock infra/docker/spark.lock ./
RUN python -m venv /opt/build && /opt/build/bin/pip install --quiet --require-hashes -r build.lock
RUN python -m venv --without-pip /opt/tidelog && /opt/build/bin/pip --python /opt/tidelog install --quiet --require-hashes --no-compile -r spark.lock
COPY pyproject.toml README.md LICENSE infra/docker/slim.sh ./
COPY compaction compaction
COPY gateway gateway
COPY log_format log_format
COPY spark_pipeline spark_pipeline
COPY tidelog tidelog
RUN /opt/build/bin/python -m hatchling build -t wheel -d dist && /opt/build/bin/pip --python /opt/tidelog install --quiet --no-deps dist/tidelog-*.whl
RUN /opt/build/bin/pip --python /opt/tidelog check && /opt/tidelog/bin/python -m spark_pipeline.jars \
    && sh slim.sh /opt/tidelog/lib && /opt/tidelog/bin/python -m compileall -q /opt/tidelog/lib

# hadolint ignore=DL3006
FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* && useradd --uid 10001 --no-create-home tidelog
COPY --from=build /opt/tidelog /opt/tidelog
ENV PATH=/opt/tidelog/bin:$PATH PYTHONDONTWRITEBYTECODE=1 TIDELOG_CACHE=/opt/tidelog/cache HOME=/tmp SPARK_LOCAL_DIRS=/tmp
WORKDIR /tmp
# Declared, so that this user may write to an empty volume there (on Fargate it would be root's).
VOLUME ["/tmp"]
USER 10001:10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["python"]
CMD ["-m", "compaction", "--help"]
