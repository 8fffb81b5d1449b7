#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time or number of inputs
# each: fuzz.sh 10s, fuzz.sh 1000x
set -euo pipefail
cd "$(dirname "$0")/.."

# Only packages that have a target are built.
for package in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do
  # Beside the targets go test -list prints its "ok" line.
  for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    echo "== $package $target"
    go test -run='^$' -fuzz="^$target\$" -fuzztime="${1:-10s}" -fuzzminimizetime=1s "$package"
  done
done
