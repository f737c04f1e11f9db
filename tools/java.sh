#!/bin/sh
# Spark needs Java 17 or newer. Says nothing where it is there; installs it where that takes no asking
# (root on Debian or Ubuntu); else says in one line what to do.
set -eu

java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
version="$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)" || version=
if [ "${version:-0}" -ge 17 ]; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Java 17 for Spark ..."
    apt-get -qq update >/dev/null
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        if DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$package" >/dev/null 2>&1; then
            exit 0
        fi
    done
fi
echo "Spark needs Java 17 or newer: install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME" >&2
exit 1
