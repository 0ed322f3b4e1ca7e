#!/bin/sh
# Gets programs that were written for Kafka, for `make kafka-clients`: once, and kept outside the repository.
#
#   scripts/kafka_clients.sh path       print where they are kept
#   scripts/kafka_clients.sh install    fetch what is missing: jars (needs Maven), Go's clients (needs Go), kafkajs (needs npm)
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

go_programs() {
    if ! go version >/dev/null 2>&1; then
        echo "Without Go there are neither franz-go nor sarama and kafka-go." >&2
        return
    fi
    shared="$here/tests/kafka_clients/go/checked/checked.go"
    for program in franz sarama segmentio; do
        source="$here/tests/kafka_clients/go/$program/main.go"
        [ -x "$kept/$program" ] && [ ! "$source" -nt "$kept/$program" ] && [ ! "$shared" -nt "$kept/$program" ] && continue
        (cd "$here/tests/kafka_clients/go" && go build -o "$kept/$program" "./$program")
    done
}

javascript() {
    if ! npm --version >/dev/null 2>&1; then
        echo "Without npm there is no kafkajs: sudo apt-get install nodejs npm" >&2
        return
    fi
    listed="$here/tests/kafka_clients/javascript/package.json"
    cmp -s "$listed" "$kept/javascript/package.json" && [ -d "$kept/javascript/node_modules" ] && return
    echo "Fetching kafkajs into $kept/javascript (once)" >&2
    mkdir -p "$kept/javascript"
    cp "$listed" "$kept/javascript/"
    (cd "$kept/javascript" && npm install --silent --no-audit --no-fund)
}

case "${1:-}" in
path) echo "$kept" ;;
install)
    mkdir -p "$kept"
    jars
    java_programs
    go_programs
    javascript
    ;;
*)
    echo "usage: $0 path | install" >&2
    exit 2
    ;;
esac
