#!/bin/sh
# Gets the MinIO server, for tests and local development: built from source by Go, once, and kept outside the repository.
#
#   scripts/minio.sh path       print where it is kept
#   scripts/minio.sh install    build it if missing
set -eu

kept="${TIDELOG_CACHE:-$HOME/.cache/tidelog}/bin"
# One version, by its commit: MinIO tags its releases in a way that Go does not take for versions.
package="github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"

install() {
    [ -x "$kept/minio" ] && return
    if ! go version >/dev/null 2>&1; then
        echo "Go is needed once, to build the MinIO server that the tests use: sudo apt-get install golang-go | sudo dnf install golang | brew install go (a current one: https://go.dev/dl)" >&2
        exit 1
    fi
    echo "Building MinIO into $kept (a few minutes, once)" >&2
    mkdir -p "$kept"
    building=$(mktemp -d "$kept/building.XXXXXX")
    trap 'rm -rf "$building"' EXIT
    # Built under another name and renamed, so that an interrupted build leaves nothing that looks like a server.
    GOBIN="$building" CGO_ENABLED=0 go install "$package"
    mv "$building/minio" "$kept/minio"
}

case "${1:-}" in
path) echo "$kept/minio" ;;
install) install ;;
*)
    echo "usage: $0 path | install" >&2
    exit 2
    ;;
esac
