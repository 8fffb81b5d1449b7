#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each: fuzz.sh 10s
set -euo pipefail
cd "$(dirname "$0")/.."

for package in $(go list ./...); do
  # Without a fuzz target go test -list prints its "ok" line only.
  for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    echo "== $package $target"
    go test -run='^$' -fuzz="^$target\$" -fuzztime="${1:-10s}" "$package"
  done
done
