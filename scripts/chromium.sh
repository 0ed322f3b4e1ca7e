#!/bin/sh
# Finds the browser in which the console's tests run, or installs it: Debian's Chromium without a window, some 160 MB, which takes
# two thirds of the processor's time of Chromium itself. Playwright downloads nothing.
#
#   scripts/chromium.sh path       print the browser's path
#   scripts/chromium.sh install    install it if there is none, where that is allowed
set -eu

path() {
    for name in chromium-headless-shell chromium chromium-browser google-chrome; do
        command -v "$name" && return
    done
    return 1
}

install() {
    command -v chromium-headless-shell >/dev/null && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "Installing Chromium, in which the console's tests run (once)" >&2
        apt-get install -y --no-install-recommends chromium-headless-shell >&2 || path >/dev/null ||
            apt-get install -y --no-install-recommends chromium >&2 || true
    fi
    path >/dev/null && return
    # The other tests need no browser: they run, and those of the console fail.
    echo "The console's tests need Chromium: sudo apt-get install chromium-headless-shell | sudo dnf install chromium | brew install --cask google-chrome" >&2
}

case "${1:-}" in
path) path ;;
install) install ;;
*)
    echo "usage: $0 path | install" >&2
    exit 2
    ;;
esac
