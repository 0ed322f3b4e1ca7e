#!/bin/sh
# Makes the lock files of the images from pyproject.toml, with the versions that requirements.lock already has. Needs uv.
# Run it after each change of requirements.lock; a test compares them.
set -eu
cd "$(dirname "$0")/../.."

compile() {
    "${UV:-uv}" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
        --constraint requirements.lock "$@"
}

compile --extra gateway --extra kafka --extra registry --extra s3 -o infra/docker/gateway.lock pyproject.toml
compile --extra cli --extra spark --extra s3 -o infra/docker/spark.lock pyproject.toml
compile --extra arrow --extra cli --extra s3 -o infra/docker/emr.lock pyproject.toml
printf 'hatchling\n' | compile -o infra/docker/build.lock -
