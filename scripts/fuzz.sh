#!/usr/bin/env bash
# Runs each fuzz target of the module for the given time or number of inputs:
# fuzz.sh 10s, fuzz.sh 1000x
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Build only packages with a fuzz target, once for all targets of a package.
for package in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do
  go test -c -fuzz=. -o "$work/test" "$package"
  for target in $(cd "$package" && grep -ho --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' ./*_test.go | cut -d ' ' -f 2); do
    echo "== $package $target"
    (cd "$package" && "$work/test" -test.run='^$' -test.fuzz="^$target\$" -test.fuzztime="${1:-10s}" \
      -test.fuzzminimizetime=1s -test.fuzzcachedir="$work/found")
  done
done
