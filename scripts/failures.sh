#!/usr/bin/env bash
# Prints the last lines of what each failed test in LOG, an output of go test -v, said.
# The end of a long log is often all that is shown of it, and a package that failed
# early is far above. A run whose tests passed prints nothing.
set -euo pipefail

awk '
  function say(test) {
    said[test] = said[test] $0 "\n"
    if (++lines[test] > 12) { # the oldest line goes
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
  # A message that has more than one line has the others further to the right.
  /^ +[a-z0-9_]+\.go:[0-9]+: / { message = 1; say(test); next }
  message && /^        / { say(test); next }
  { message = 0 }
' "$1" | tail -n 40
