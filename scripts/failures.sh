#!/usr/bin/env bash
# Prints the last lines of each failed test in LOG, an output of go test -v. Often only
# the end of a long log is visible, far below a package that failed early. If all tests
# passed, it prints nothing.
set -euo pipefail

awk '
  function say(test) {
    said[test] = said[test] $0 "\n"
    if (++lines[test] > 12) { # drop the oldest line
      sub(/^[^\n]*\n/, "", said[test])
    }
  }
  $1 == "===" { test = $3; message = 0; next }
  $1 == "---" {
    if ($2 == "FAIL:") {
      printf "%s", said[$3]
      print
    }
    delete said[$3]
    delete lines[$3]
    next
  }
  /^panic: |^FAIL[ \t]|^make: \*\*\*|DATA RACE/ { print; next }
  # The further lines of a message are indented more.
  /^ +[a-z0-9_]+\.go:[0-9]+: / { message = 1; say(test); next }
  message && /^        / { say(test); next }
  { message = 0 }
' "$1" | tail -n 40
