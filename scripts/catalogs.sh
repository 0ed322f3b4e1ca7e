#!/bin/sh
# Gets other programs that read topics by catalogs, for `make catalogs`: once, and kept outside the repository.
#
#   scripts/catalogs.sh path       print where they are kept
#   scripts/catalogs.sh install    fetch what is missing: DuckDB with extensions, DataFusion, PySpark 4.1, Iceberg for Spark and Flink, Trino, Iceberg's compatibility kit
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
kept="${TIDELOG_CACHE:-$HOME/.cache/tidelog}/catalogs"
dependencies=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
trino=476

# libraries NAME PACKAGE…: a virtual environment of its own
libraries() {
    name=$1
    shift
    [ -f "$kept/$name/complete" ] && return
    echo "Fetching $* into $kept/$name (once)" >&2
    "$here/.venv/bin/python" -m venv --clear "$kept/$name"
    "$kept/$name/bin/pip" install --quiet --disable-pip-version-check "$@"
    touch "$kept/$name/complete"
}

# jars NAME: those that the pom.xml of that name in tests/catalogs/jars names
jars() {
    listed="$here/tests/catalogs/jars/$1/pom.xml"
    cmp -s "$listed" "$kept/jars-$1/pom.xml" && return
    echo "Fetching the jars of $listed into $kept/jars-$1 (once)" >&2
    rm -rf "$kept/jars-$1"
    mvn -q -B -f "$listed" "$dependencies:copy-dependencies" -DincludeScope=runtime "-DoutputDirectory=$kept/jars-$1"
    cp "$listed" "$kept/jars-$1/"
}

flink_program() {
    source="$here/tests/catalogs/programs/FlinkIceberg.java"
    [ -d "$kept/flink" ] && [ ! "$source" -nt "$kept/flink" ] && return
    javac -nowarn -cp "$kept/jars-flink/*" -d "$kept/flink" "$source"
    touch "$kept/flink"
}

# 800 MB. Plugins share files by hard links, so all of it is unpacked, and what is not needed removed.
trino() {
    [ -d "$kept/trino-server-$trino/plugin/delta-lake" ] && return
    echo "Fetching Trino $trino into $kept (once)" >&2
    mvn -q -B "$dependencies:copy" "-Dartifact=io.trino:trino-server:$trino:tar.gz" "-DoutputDirectory=$kept"
    rm -rf "$kept/unpacked" "$kept/trino-server-$trino"
    mkdir -p "$kept/unpacked"
    tar xzf "$kept/trino-server-$trino.tar.gz" -C "$kept/unpacked"
    whole="$kept/unpacked/trino-server-$trino"
    mkdir -p "$kept/taken/plugin"
    mv "$whole/lib" "$kept/taken/"
    mv "$whole/plugin/iceberg" "$whole/plugin/delta-lake" "$kept/taken/plugin/"
    mv "$kept/taken" "$kept/trino-server-$trino"
    rm -r "$kept/unpacked" "$kept/trino-server-$trino.tar.gz"
}

case "${1:-}" in
path) echo "$kept" ;;
install)
    mkdir -p "$kept"
    libraries duckdb duckdb==1.5.5 duckdb-extension-iceberg==1.5.5 duckdb-extension-httpfs==1.5.5 duckdb-extension-avro==1.5.5
    libraries duckdb-delta duckdb==1.5.5 duckdb-extension-delta==1.5.5 duckdb-extension-httpfs==1.5.5
    libraries datafusion datafusion==55.0.0 pyiceberg==0.12.0 pyarrow==26.0.1 s3fs==2026.9.0
    libraries spark pyspark==4.1.2
    if ! mvn --version >/dev/null 2>&1; then
        echo "Without Maven there are neither Spark's Iceberg nor Trino, Flink and the kit: sudo apt-get install maven openjdk-17-jdk-headless" >&2
        exit 0
    fi
    jars spark
    jars flink
    jars kit
    flink_program
    trino
    ;;
*)
    echo "usage: $0 path | install" >&2
    exit 2
    ;;
esac
