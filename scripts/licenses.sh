#!/usr/bin/env bash
# Copies the licences and notices of all linked modules: licenses.sh DIRECTORY. GOOS and
# GOARCH select the program. The files of a module go to DIRECTORY/PATH@VERSION, with
# their paths in the module, and the files of Go to DIRECTORY/stdlib@VERSION.
set -euo pipefail
mkdir -p "$1"
licenses=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOFLAGS=-mod=readonly

shopt -s nullglob nocaseglob

# copy DIRECTORY TO copies the licences in a directory.
copy() {
  local file
  for file in "$1"/{licen[cs]e,notice,copying}*; do
    [[ -f $file && $file != *.go ]] || continue
    mkdir -p "$2"
    cp "$file" "$2"
  done
}

copy "$(go env GOROOT)" "$licenses/stdlib@$(go env GOVERSION)"
modules=$(go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}{{"\t"}}{{.Dir}}{{"\t"}}{{$.Dir}}{{end}}{{end}}' ./cmd/server | sort -u)
while IFS=$'\t' read -r module root package; do
  # Third-party code has its licence in the directory of its package or above.
  while :; do
    copy "$package" "$licenses/$module${package#"$root"}"
    [[ $package != "$root" ]] || break
    package=${package%/*}
  done
  if [[ ! -d $licenses/$module ]]; then
    echo "licenses: $module has none" >&2
    exit 1
  fi
done <<<"$modules"
