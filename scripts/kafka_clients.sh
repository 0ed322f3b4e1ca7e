#!/bin/sh
# Gets programs that were written for Kafka, for `make kafka-clients`: once, and kept outside the repository.
#
#   scripts/kafka_clients.sh path       print where they are kept
#   scripts/kafka_clients.sh install    fetch what is missing: jars, Debezium, Flink, Apicurio Registry (needs Maven), Go's clients (needs Go), rskafka (needs Rust), clients in JavaScript (needs npm), libraries for Python
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

# Debezium's connector, a plugin of Connect, Confluent's converters and serializers, another, and Apicurio Registry.
archives() {
    [ -f "$kept/jars.complete" ] || return 0
    listed="$here/tests/kafka_clients/archives/pom.xml"
    cmp -s "$listed" "$kept/archives.pom.xml" && return
    echo "Fetching Debezium, Confluent's converters and Apicurio Registry into $kept (once)" >&2
    rm -rf "$kept/archives" "$kept/plugins-debezium" "$kept/plugins-confluent" "$kept/apicurio" "$kept/debezium-server"
    # Version 2: later ones also need the poms of all parents, some of which were never published.
    mvn -q -B -f "$listed" "-Dkept=$kept" org.apache.maven.plugins:maven-dependency-plugin:2.10:unpack
    mkdir -p "$kept/plugins-confluent"
    mv "$kept/debezium-server/connectors/debezium-connector-dse" "$kept/plugins-confluent/converters"
    rm -r "$kept/debezium-server"
    # Debezium's is too old for Confluent's Protobuf.
    mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:2.10:copy \
        -Dartifact=com.google.api.grpc:proto-google-common-protos:2.22.1 "-DoutputDirectory=$kept/plugins-confluent/converters"
    cp "$listed" "$kept/archives.pom.xml"
}

java_programs() {
    [ -f "$kept/jars.complete" ] || return 0
    newest=$(ls -t "$here"/tests/kafka_clients/java/*.java | head -1)
    [ -f "$kept/java.complete" ] && [ ! "$newest" -nt "$kept/java.complete" ] && return
    mkdir -p "$kept/classes"
    javac -nowarn -cp "$kept/libs/*:$kept/plugins-confluent/converters/*" -d "$kept/classes" "$here"/tests/kafka_clients/java/*.java
    touch "$kept/java.complete"
}

# Flink has a Kafka client of its own version: its jars are apart.
flink() {
    [ -f "$kept/jars.complete" ] || return 0
    from="$here/tests/kafka_clients/java/flink"
    if ! cmp -s "$from/pom.xml" "$kept/flink/pom.xml"; then
        echo "Fetching Flink and its Kafka connector into $kept (once)" >&2
        rm -rf "$kept/flink"
        mvn -q -B -f "$from/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
            -DincludeScope=runtime -DoutputDirectory="$kept/flink/libs"
        cp "$from/pom.xml" "$kept/flink/"
    fi
    newest=$(ls -t "$from"/*.java | head -1)
    [ -f "$kept/flink/java.complete" ] && [ ! "$newest" -nt "$kept/flink/java.complete" ] && return
    mkdir -p "$kept/flink/classes"
    javac -nowarn -cp "$kept/flink/libs/*" -d "$kept/flink/classes" "$from"/*.java
    touch "$kept/flink/java.complete"
}

go_programs() {
    if ! go version >/dev/null 2>&1; then
        echo "Without Go there are neither franz-go nor sarama and kafka-go." >&2
        return
    fi
    shared="$here/tests/kafka_clients/go/checked/checked.go"
    for program in franz registry sarama segmentio; do
        source="$here/tests/kafka_clients/go/$program/main.go"
        [ -x "$kept/$program" ] && [ ! "$source" -nt "$kept/$program" ] && [ ! "$shared" -nt "$kept/$program" ] && continue
        (cd "$here/tests/kafka_clients/go" && go build -o "$kept/$program" "./$program")
    done
}

rust_program() {
    if ! cargo --version >/dev/null 2>&1; then
        echo "Without Rust there is no rskafka." >&2
        return
    fi
    source="$here/tests/kafka_clients/rust"
    cmp -s "$source/src/main.rs" "$kept/rust/src/main.rs" && cmp -s "$source/Cargo.toml" "$kept/rust/Cargo.toml" && [ -x "$kept/rskafka" ] && return
    echo "Building a program of rskafka in $kept/rust (once)" >&2
    mkdir -p "$kept/rust"
    cp -r "$source/." "$kept/rust/"
    cargo build --quiet --manifest-path "$kept/rust/Cargo.toml"
    cp "$kept/rust/target/debug/rskafka_program" "$kept/rskafka"
}

javascript() {
    if ! npm --version >/dev/null 2>&1; then
        echo "Without npm there are no clients in JavaScript: sudo apt-get install nodejs npm" >&2
        return
    fi
    listed="$here/tests/kafka_clients/javascript/package.json"
    cmp -s "$listed" "$kept/javascript/package.json" && [ -d "$kept/javascript/node_modules" ] && return
    echo "Fetching clients in JavaScript into $kept/javascript (once)" >&2
    mkdir -p "$kept/javascript"
    cp "$listed" "$kept/javascript/"
    (cd "$kept/javascript" && npm install --silent --no-audit --no-fund)
}

python() {
    listed="$here/tests/kafka_clients/python/requirements.txt"
    cmp -s "$listed" "$kept/python/requirements.txt" && return
    echo "Fetching libraries for Python into $kept/python (once)" >&2
    "$here/.venv/bin/python" -m venv --clear "$kept/python"
    "$kept/python/bin/pip" install --quiet --disable-pip-version-check -r "$listed"
    cp "$listed" "$kept/python/"
}

case "${1:-}" in
path) echo "$kept" ;;
install)
    mkdir -p "$kept"
    jars
    archives
    java_programs
    flink
    go_programs
    rust_program
    javascript
    python
    ;;
*)
    echo "usage: $0 path | install" >&2
    exit 2
    ;;
esac
