# Maintenance on EMR Serverless: docker build -f infra/docker/emr.Dockerfile -t tidelog-emr .
#
# EMR runs only images built on its own, brings Spark itself, and names the command: there is no entry point here. BASE is the image
# of the application's release (release_label of the Terraform module maintenance). Its registry has the tag latest only, so it has
# no default: a sentence is no image's name, and every builder ends with it at once. Both stages use BASE, so that the environment
# meets the Python that it was made with.

ARG BASE="Give --build-arg BASE=public.ecr.aws/emr-serverless/spark/emr-spark-8.0.0@sha256:DIGEST as docker buildx imagetools inspect public.ecr.aws/emr-serverless/spark/emr-spark-8.0.0:latest shows it"
# hadolint ignore=DL3006
FROM ${BASE} AS build
# hadolint ignore=DL3002,DL3066
USER root
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY infra/docker/build.lock infra/docker/emr.lock ./
RUN python3.11 -m venv /opt/build && /opt/build/bin/pip install --quiet --require-hashes -r build.lock
RUN python3.11 -m venv --without-pip /opt/tidelog && /opt/build/bin/pip --python /opt/tidelog install --quiet --require-hashes --no-compile -r emr.lock
COPY pyproject.toml README.md LICENSE ./
COPY compaction compaction
COPY gateway gateway
COPY log_format log_format
COPY spark_pipeline spark_pipeline
COPY tidelog tidelog
RUN /opt/build/bin/python -m hatchling build -t wheel -d dist && /opt/build/bin/pip --python /opt/tidelog install --quiet --no-deps dist/tidelog-*.whl
RUN /opt/build/bin/pip --python /opt/tidelog check && /opt/tidelog/bin/python -m compileall -q /opt/tidelog/lib

# hadolint ignore=DL3006
FROM ${BASE}
COPY --from=build /opt/tidelog /opt/tidelog
COPY infra/docker/emr-maintenance.py /opt/tidelog/maintenance.py
# hadolint ignore=DL3066
USER hadoop:hadoop
