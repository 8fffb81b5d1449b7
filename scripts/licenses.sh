#!/usr/bin/env bash
# Copies the licences and notices of all that the program is linked with: licenses.sh
# DIRECTORY. The program is that of GOOS and GOARCH. The files of a module are in
# DIRECTORY/PATH@VERSION, at their places in it, and those of Go in stdlib@VERSION.
set -euo pipefail
mkdir -p "$1"
licenses=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOFLAGS=-mod=readonly

shopt -s nullglob nocaseglob

# copy DIRECTORY TO copies the licences that lie in a directory.
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
  # Code of others has its licence beside it, in the directory of a package or above.
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
