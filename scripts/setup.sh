#!/bin/sh
# Makes .venv from requirements.lock (versions and hashes fixed), installs the project into it as an editable package, and
# gets the Spark jars. Needs Python 3.11 to 3.13, Java 17 or newer and a shell. Run by `make setup`.
# PYTHON: the interpreter to use; FIRST_PYTHON: one to try before the newest.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

# Some commands exist and fail when they run (version managers' shims, macOS' stubs), so each candidate is tried.
fits='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
makes_environments='import ensurepip, venv'

find_python() {
    for candidate in ${PYTHON:-${FIRST_PYTHON:-} python3.13 python3.12 python3.11 python3}; do
        if "$candidate" -c "$fits" >/dev/null 2>&1; then
            if "$candidate" -c "$makes_environments" >/dev/null 2>&1; then
                printf '%s\n' "$candidate"
                return
            fi
            say "$candidate can't make virtual environments (on Debian and Ubuntu: sudo apt-get install python3-venv)."
        fi
    done
    say "Python 3.11, 3.12 or 3.13 is needed: sudo apt-get install python3 python3-venv | sudo dnf install python3 | brew install python@3.13"
    exit 1
}

check_java() {
    java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || version=""
    if [ "${version:-0}" -lt 17 ]; then
        found=${version:+" ($java is Java $version)"}
        say "Java 17 or newer is needed for Spark${found}: sudo apt-get install openjdk-17-jre-headless | sudo dnf install java-17-openjdk-headless | brew install openjdk@17 (and set JAVA_HOME)"
        exit 1
    fi
}

python=$(find_python)
check_java

if [ -d .venv ] && ! .venv/bin/python -c "$fits" >/dev/null 2>&1; then
    say "The Python of .venv is gone: making .venv again."
    rm -rf .venv
fi
if [ ! -x .venv/bin/python ]; then
    say "Making .venv with $("$python" --version)"
    "$python" -m venv .venv
fi
.venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip --upgrade >/dev/null

export PIP_DISABLE_PIP_VERSION_CHECK=1
say "Installing the locked packages (pyspark alone is 450 MB; this takes a few minutes the first time)"
.venv/bin/python -m pip install --quiet --use-pep517 --require-hashes -r requirements.lock
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
say "Getting the Spark jars"
.venv/bin/python -m spark_pipeline.jars
say "Set up: .venv/bin/tidelog"
