#!/usr/bin/env bash
# Makes a release of the checked-out commit: release.sh [DIRECTORY]. DIRECTORY is dist
# by default, and must not exist. The script writes, the first two for each of TARGETS,
#
#   weir_VERSION_OS_ARCH.tar.gz      the program, its licence and documents, and the
#                                    licences of linked modules in licenses/
#   weir_VERSION_OS_ARCH.cdx.json    the components of the program (CycloneDX)
#   weir-chart_VERSION.tgz           the Helm chart
#   SHA256SUMS                       checksums of all other files
#
# The same commit and version of Go give the same bytes, in any directory and at any
# time. VERSION is the tag of the commit, or the output of git describe. The script
# needs GNU tar, python3 and syft (scripts/tools.sh install).
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TARGETS:=linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}"
dist=${1:-dist}
# These files are packed with the program: documents, and the files to which they link.
packed=(
  LICENSE README.md MIGRATING.md CHANGELOG.md ARCHITECTURE.md CONTRIBUTING.md docs config examples
  deploy/chart deploy/grafana deploy/prometheus bench/README.md
  e2e/streamdone_test.go internal/limiter/herd_test.go internal/limiter/redis/holds_test.go
)
syft=${SYFT:-$(command -v syft || echo "$PWD/.tools/syft/bin/syft")}

fail() {
  printf 'release: %s\n' "$*" >&2
  exit 1
}

[[ ! -e $dist ]] || fail "$dist exists"
[[ -z $(git status --porcelain) ]] || fail "the checkout has changes, a release is of a commit: $(git status --porcelain | head -n 1)"
"$syft" --version >/dev/null 2>&1 || fail "no syft in PATH, \$SYFT or .tools (scripts/tools.sh install)"
tar --version 2>/dev/null | grep -q 'GNU tar' || fail "tar is not GNU tar"

version=${VERSION:-$(git describe --tags --always)}
commit=$(git rev-parse HEAD)
epoch=$(git log -1 --format=%ct)
date=$(git log -1 --format=%cI)
umask 022
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# archive NAME SUBDIRECTORY packs a directory of $work. User names, times and order do
# not depend on this machine.
archive() {
  tar -C "$work" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$2" | gzip -9n >"$1"
}

# sbom FILE NAME writes the components of the program FILE, without the time, the random
# number and the paths that syft adds. Without the repository's history, Weir has no
# version in a build. syft reads licences only from the module cache.
sbom() {
  (cd "$(dirname "$1")" && SYFT_CHECK_FOR_APP_UPDATE=false SYFT_GOLANG_SEARCH_LOCAL_MOD_CACHE_LICENSES=true \
    SYFT_GOLANG_LOCAL_MOD_CACHE_DIR=$(go env GOMODCACHE) \
    "$syft" scan -q --source-name weir --source-version "$version" -o cyclonedx-json "file:weir") |
    python3 -c '
import datetime, json, sys, uuid
when, name, version = int(sys.argv[1]), sys.argv[2], sys.argv[3]
bom = json.loads(sys.stdin.read().replace("golang/weir@(devel)", "golang/weir@" + version))
bom["metadata"]["timestamp"] = datetime.datetime.fromtimestamp(when, datetime.timezone.utc).isoformat()
bom["serialNumber"] = "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, name))
for component in bom["components"]:
    if component["name"] == "weir":
        component.update(version=version, licenses=[{"license": {"id": "Apache-2.0"}}])
    licenses = []
    for entry in component.get("licenses", []):
        entry.get("license", {}).pop("url", None)
        if entry not in licenses:
            licenses.append(entry)
    component["licenses"] = licenses
    if not licenses or component["version"] == "(devel)":
        sys.exit("release: no licence or version is known of %s %s" % (component["name"], component["version"]))
json.dump(bom, sys.stdout, indent=1, sort_keys=True)
print()
' "$epoch" "$commit/$2" "$version"
}

for target in $TARGETS; do
  os=${target%/*} arch=${target#*/}
  name=weir_${version}_${os}_$arch
  mkdir -p "$work/$name"
  CGO_ENABLED=0 GOOS=$os GOARCH=$arch GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false \
    -ldflags="-s -w -X main.release=$version -X main.commit=$commit -X main.date=$date" -o "$work/$name/weir" ./cmd/server
  git archive HEAD "${packed[@]}" | tar -C "$work/$name" -xf -
  GOOS=$os GOARCH=$arch scripts/licenses.sh "$work/$name/licenses"
  chmod -R u=rwX,go=rX "$work/$name"
  archive "$dist/$name.tar.gz" "$name"
  sbom "$work/$name/weir" "$name" >"$dist/$name.cdx.json"
done
scripts/chart.sh "$work" "$version"
chmod -R u=rwX,go=rX "$work/weir"
archive "$dist/weir-chart_$version.tgz" weir
cd "$dist"
sha256sum -- * >"$work/sums"
mv "$work/sums" SHA256SUMS
cat SHA256SUMS
