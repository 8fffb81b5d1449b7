#!/usr/bin/env bash
# Looks for known vulnerabilities in code that the module calls: govulncheck.sh [OPTION...]
# A finding is an error. If the database of vulnerabilities cannot be reached, the script
# says so, and exits 0.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
out=$("${GO:-go}" tool -modfile=tools/go.mod govulncheck "$@" ./... 2>&1) || status=$?
printf '%s\n' "$out"
if [[ $status == 1 && $out == *"govulncheck: fetching vulnerabilities: "* ]]; then
  echo "left out: the search for known vulnerabilities, whose database cannot be reached"
  exit 0
fi
exit "$status"
