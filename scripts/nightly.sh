#!/usr/bin/env bash
# Runs the checks that take too long for each change: other systems, the race detector
# in all tests, fuzzing, and releases. Run it in a clean checkout where .ci/run passes.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

step() { printf '\n=== %s (after %ds)\n' "$*" "$SECONDS"; }
export WEIR_TEST_REQUIRE=redis-server,envoy,chromium,bash,zsh,fish,curl,namespaces,network

step "modules as they were published"
go mod verify
# go mod verify refuses the path of the server, because it has no dot. These modules require it.
for module in bench deploy/check; do
  others=$(mktemp -d)
  cp "$module/go.mod" "$module/go.sum" "$others"
  go -C "$others" mod edit -droprequire=weir -dropreplace=weir
  go -C "$others" mod verify
  rm -r "$others"
done

step vulnerabilities
scripts/govulncheck.sh

step "another system"
for module in . bench; do
  GOOS=darwin GOARCH=arm64 go -C "$module" vet ./... # includes files that are not for Linux
done

step "race detector"
make test RACE=-race TESTFLAGS=-count=1

step "other Redis"
for redis in "trixie valkey-server" "trixie redis-server" "bullseye redis-server"; do
  newer='^$'
  if [[ $redis = bullseye* ]]; then
    # These tests pause only writes, or use other commands and settings that Redis 6.0 does
    # not have. Its sentinels do not support users with passwords.
    newer='TestRealRedisThatRefuses|TestAFullQueueRefuses|TestCountersExpireWithTheirWindow'
    newer+='|TestLateAnswersAreCounted|TestCallersThatLeaveAreCounted|TestDenialsAreLearntAfterTheirCallersLeft'
    newer+='|TestBreakerOnRedisThatHangs|TestRedisIsLoading|TestRedisThatHangs|TestRequestsInFlightWhenRedisDies|TestTerminationDrains|TestInFlight'
    newer+='|TestPasswordsOfRedisAreReplaced/sentinel'
  fi
  # shellcheck disable=SC2086 # two words
  PATH=$(scripts/redis.sh $redis):$PATH go test -count=1 -timeout=30m -skip="$newer" ./internal/limiter/redis ./internal/server ./e2e
done

step fuzz
make fuzz FUZZ="${FUZZ:-60s}"

step "random decisions against the model"
make differential

step release
# Two builds in different directories, with different caches, must give the same bytes.
again=$(mktemp -d)
rm -rf dist
TARGETS=linux/amd64 scripts/release.sh dist
git clone --quiet . "$again/weir"
TARGETS=linux/amd64 GOCACHE=$again/cache SYFT=$PWD/.tools/syft/bin/syft "$again/weir/scripts/release.sh" dist
diff dist/SHA256SUMS "$again/weir/dist/SHA256SUMS"
tar -xzOf dist/weir_*_linux_amd64.tar.gz --wildcards '*/weir' >"$again/program"
chmod +x "$again/program"
"$again/program" version
tar -tzf dist/weir_*_linux_amd64.tar.gz --wildcards '*/licenses/*/LICENSE' >/dev/null
chart=$(echo dist/weir-chart_*.tgz)
(cd dist && sha256sum --check --quiet SHA256SUMS && grep -q " ${chart#dist/}$" SHA256SUMS)
go -C deploy/check tool helm lint --strict "$PWD/$chart"
go -C deploy/check tool helm template weir "$PWD/$chart" >"$again/manifests"
version=${chart#*_}
grep -q "image: .*/weir:${version%.tgz}\"$" "$again/manifests"
chmod -R u+w "$again" && rm -rf "$again" dist
# Also build for another processor and another system.
TARGETS="linux/arm64 darwin/arm64" scripts/release.sh dist
rm -rf dist
printf '\n=== done (after %ds)\n' "$SECONDS"
