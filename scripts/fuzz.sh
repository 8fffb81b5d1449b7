#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time or number of inputs
# each: fuzz.sh 10s, fuzz.sh 1000x
set -euo pipefail
cd "$(dirname "$0")/.."

for package in $(go list ./...); do
  # Without a fuzz target go test -list prints its "ok" line only.
  for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    echo "== $package $target"
    go test -run='^$' -fuzz="^$target\$" -fuzztime="${1:-10s}" -fuzzminimizetime=1s "$package"
  done
done
