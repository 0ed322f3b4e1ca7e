#!/bin/sh
# Gets a Kafka broker and its Python clients, for the benchmarks: once, and kept outside the repository.
#
#   scripts/kafka.sh path       print where they are kept
#   scripts/kafka.sh install    fetch what is missing (needs Maven)
#   scripts/kafka.sh spark      the same for Spark's Kafka source (needs a JDK, too)
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
kept="${TIDELOG_CACHE:-$HOME/.cache/tidelog}/kafka"
clients="confluent-kafka==2.16.1 kafka-python==3.0.12 crc32c==2.9.post0"

install() {
    [ -f "$kept/complete" ] && return
    if ! mvn --version >/dev/null 2>&1; then
        echo "Maven is needed once, to fetch the Kafka broker that the benchmarks compare with: sudo apt-get install maven | sudo dnf install maven | brew install maven" >&2
        exit 1
    fi
    echo "Fetching Kafka into $kept (once)" >&2
    mkdir -p "$kept"
    mvn -q -B -f "$here/benchmarks/kafka/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$kept/libs"
    "$here/.venv/bin/python" -m venv --clear "$kept/venv"
    # shellcheck disable=SC2086 - several requirements
    "$kept/venv/bin/pip" install --quiet --disable-pip-version-check $clients
    touch "$kept/complete"
}

spark() {
    install
    [ -f "$kept/spark/complete" ] && return
    echo "Fetching Spark's Kafka source into $kept/spark (once)" >&2
    mvn -q -B -f "$here/benchmarks/kafka/spark_pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$kept/spark"
    jars=$("$here/.venv/bin/python" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
    mkdir -p "$kept/spark/classes"
    java -cp "$jars/*" scala.tools.nsc.Main -nowarn -d "$kept/spark/classes" -cp "$jars/*:$kept/spark/*" \
        "$here/benchmarks/kafka/TokenStandIn.scala"
    (cd "$kept/spark/classes" && jar cf ../token-stand-in.jar .)
    touch "$kept/spark/complete"
}

case "${1:-}" in
path) echo "$kept" ;;
install) install ;;
spark) spark ;;
*)
    echo "usage: $0 path | install | spark" >&2
    exit 2
    ;;
esac
