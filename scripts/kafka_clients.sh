#!/bin/sh
# Gets programs that were written for Kafka, for `make kafka-clients`: once, and kept outside the repository.
#
#   scripts/kafka_clients.sh path       print where they are kept
#   scripts/kafka_clients.sh install    fetch what is missing: jars (needs Maven), franz-go (needs Go)
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
kept="${TIDELOG_CACHE:-$HOME/.cache/tidelog}/kafka-clients"

jars() {
    [ -f "$kept/jars.complete" ] && return
    if ! mvn --version >/dev/null 2>&1; then
        echo "Without Maven there are no Java clients: sudo apt-get install maven openjdk-17-jdk-headless" >&2
        return
    fi
    echo "Fetching Kafka's tools, Connect, MirrorMaker 2 and Streams into $kept (once)" >&2
    mvn -q -B -f "$here/tests/kafka_clients/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$kept/libs"
    # Connect looks for connectors in a folder of their own.
    mkdir -p "$kept/plugins/file"
    mv "$kept"/libs/connect-file-*.jar "$kept/plugins/file/"
    touch "$kept/jars.complete"
}

java_programs() {
    [ -f "$kept/jars.complete" ] || return 0
    newest=$(ls -t "$here"/tests/kafka_clients/java/*.java | head -1)
    [ -f "$kept/java.complete" ] && [ ! "$newest" -nt "$kept/java.complete" ] && return
    mkdir -p "$kept/classes"
    javac -nowarn -cp "$kept/libs/*" -d "$kept/classes" "$here"/tests/kafka_clients/java/*.java
    touch "$kept/java.complete"
}

franz() {
    if ! go version >/dev/null 2>&1; then
        echo "Without Go there is no franz-go." >&2
        return
    fi
    source="$here/tests/kafka_clients/go"
    [ -x "$kept/franz" ] && [ ! "$source/main.go" -nt "$kept/franz" ] && return
    (cd "$source" && go build -o "$kept/franz" .)
}

case "${1:-}" in
path) echo "$kept" ;;
install)
    mkdir -p "$kept"
    jars
    java_programs
    franz
    ;;
*)
    echo "usage: $0 path | install" >&2
    exit 2
    ;;
esac
