#!/usr/bin/env bash
# Starts the services of docker-compose.yml, sends requests through Envoy until a
# limit is exceeded, and stops everything again. It pulls nothing:
#
#   real       docker-compose.yml with its mounts, conditions and permissions; the
#              Dockerfile with .dockerignore; the programs of Weir, Redis and Envoy
#   stand-ins  the images in these files, made from programs of this machine: redis
#              is its redis-server, envoy is the Envoy of scripts/tools.sh, whoami is
#              examples/envoy/echo, and golang is a system whose "go build" returns
#              a program that was built here, with the command of the Dockerfile,
#              from the files that .dockerignore does not exclude
#
# dockerd runs in separate namespaces for network, mounts and processes. It does not
# touch other containers and ports of this machine, and stops with this script. If
# that is not possible, the script says what it skips and why, and exits 0.
set -euo pipefail
cd "$(dirname "$0")/.."

compose_version=v2.40.3
compose=$PWD/.tools/docker-compose-$compose_version

left_out() {
  echo "left out: docker-compose.yml with its containers: $*"
  exit 0
}

# image NAME DIR OPTION... makes an image from the files in DIR.
image() {
  local name=$1 dir=$2
  shift 2
  tar -C "$dir" -c . | docker import "$@" - "$name" >/dev/null
}

# system DIR PROGRAM... makes a root file system in DIR that can run the programs.
system() {
  local dir=$1 program
  shift
  mkdir -p "$dir"/{bin,etc/ssl/certs,lib,tmp,usr}
  chmod 1777 "$dir/tmp"
  ln -sf ../bin "$dir/usr/bin"
  cp /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/"
  for program; do
    cp -L "$(command -v "$program")" "$dir/bin/"
    # For a static program, which has no libraries, ldd and grep fail.
    { ldd "$(command -v "$program")" 2>/dev/null | grep -o '/[^ ]*' || true; } | while read -r library; do
      mkdir -p "$dir${library%/*}"
      cp -L "$library" "$dir$library"
    done
  done
}

# named NAME prints the image with this name in docker-compose.yml, with its version.
named() { sed -n "s|^ *image: \($1:.*\)|\1|p" docker-compose.yml; }

# images makes the images that docker-compose.yml and the Dockerfile name.
images() {
  system "$work/redis" bash redis-server redis-cli
  # The real image is built without protected mode.
  mv "$work/redis/bin/redis-server" "$work/redis/bin/redis"
  # shellcheck disable=SC2016 # expanded by the script
  printf '#!/bin/bash\nexec -a redis-server redis "$@" --protected-mode no\n' >"$work/redis/bin/redis-server"
  chmod +x "$work/redis/bin/redis-server"
  image "$(named redis)" "$work/redis" -c 'ENV PATH=/bin'
  system "$work/envoy" "$envoy" bash grep
  image "$(named envoyproxy/envoy)" "$work/envoy" -c 'ENV PATH=/bin' -c 'ENTRYPOINT ["/bin/envoy"]' -c 'USER 101'
  system "$work/echo" bash "$work/echo-upstream"
  # shellcheck disable=SC2016 # expanded by the script
  printf '#!/bin/bash\n[[ $* == "--port 8000" ]] && exec echo-upstream\n' >"$work/echo/bin/whoami"
  chmod +x "$work/echo/bin/whoami"
  image "$(named traefik/whoami)" "$work/echo" -c 'ENV PATH=/bin' -c 'ENTRYPOINT ["/bin/whoami"]'

  system "$work/golang" sh bash env mkdir cp ln install sort dirname
  cat >"$work/golang/bin/go" <<'GO'
#!/bin/bash
# Stands in for go. It downloads nothing, lists no modules, and copies a finished build.
set -eu
case $* in
  "mod download" | "env "* | "list "*) exit 0 ;;
esac
shopt -s globstar nullglob
sources=(cmd/**/* internal/**/*)
tests=(**/*_test.go **/testdata)
if [[ $1 != build || ! -e go.mod || ! -e config || ${#sources[@]} -lt 100 || ${#tests[@]} -gt 0 ]]; then
  echo "unexpected: go $*, with ${#sources[@]} files and ${#tests[@]} tests" >&2
  exit 1
fi
while [[ $1 != -o ]]; do shift; done
mkdir -p "${2%/*}"
cp /bin/weir "$2"
GO
  chmod +x "$work/golang/bin/go"
  cp "$work/weir" "$work/golang/bin/weir"
  image "$(sed -n 's/^FROM .*\(golang:.*\) AS build/\1/p' Dockerfile)" "$work/golang" -c 'ENV PATH=/bin'
}

# inside runs within the namespaces.
inside() {
  ip link set lo up
  export DOCKER_HOST=unix://$work/docker.sock DOCKER_BUILDKIT=0 # BuildKit would ask registries for local images
  dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/dockerd.pid" -H "$DOCKER_HOST" >"$work/dockerd.log" 2>&1 &
  local daemon=$!
  until docker version >/dev/null 2>&1; do
    kill -0 $daemon 2>/dev/null || left_out "dockerd does not start here: $(grep -v level=info "$work/dockerd.log" | tail -n 1)"
    sleep 0.2
  done
  images
  # Only BuildKit sets the platform itself.
  "$compose" build --build-arg "BUILDPLATFORM=linux/$(go env GOARCH)"
  docker export "$(docker create weir)" | tar -t licenses/LICENSE
  "$compose" up --wait --wait-timeout 60 ||
    { "$compose" ps --all; "$compose" logs --tail 20; return 1; }
  ask
  "$compose" down
  kill $daemon
  wait $daemon || true
}

# ask sends the requests of the README, five of which pass in a minute. If a minute of
# the clock ends in between, it tries again with another user.
ask() {
  local minute answers user
  for user in alice bob carol; do
    minute=$(date +%M) answers=
    for _ in 1 2 3 4 5 6; do
      answers+="$(curl -s -o /dev/null -w '%{http_code}' --max-time 10 -H "x-user: $user" http://127.0.0.1:8888/) "
    done
    [[ $minute != "$(date +%M)" ]] || break
  done
  echo "through Envoy: $answers"
  if [[ $answers != "200 200 200 200 200 429 " ]]; then
    "$compose" logs --tail 20
    return 1
  fi
}

# install_compose builds Compose. go install cannot build it, because its module has
# replace directives.
install_compose() {
  [[ ! -x $compose ]] || return 0
  mkdir -p .tools
  local dir
  dir=$(go mod download -json "github.com/docker/compose/v2@$compose_version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') &&
    CGO_ENABLED=0 timeout 120 go build -C "$dir" -o "$compose" ./cmd
} >"$work/compose.log" 2>&1

if [[ ${1:-} == inside ]]; then
  work=$2 envoy=$3
  inside
  exit
fi

[[ $(id -u) == 0 ]] || left_out "dockerd needs root"
for program in docker dockerd unshare ip iptables curl redis-server redis-cli; do
  command -v "$program" >/dev/null || left_out "no $program in PATH (apt-get install docker.io redis-server iproute2 iptables curl util-linux)"
done
envoy=$(find .tools/envoy/ -path '*/_bin/envoy' -type f 2>/dev/null | head -n 1)
[[ -n $envoy ]] || left_out "no Envoy in .tools/envoy (scripts/tools.sh install)"
unshare --net --mount --pid --fork true 2>/dev/null || left_out "namespaces are not allowed here"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_compose || left_out "Docker Compose $compose_version cannot be built within two minutes: $(tail -n 1 "$work/compose.log")"
build=$(sed -n 's/^RUN \(CGO_ENABLED=0 .*go build .*\) -o .*/\1/p' Dockerfile)
VERSION="" COMMIT="" DATE="" TARGETOS="" TARGETARCH="" bash -c "$build -o '$work/weir' ./cmd/server"
CGO_ENABLED=0 go build -o "$work/echo-upstream" ./examples/envoy/echo
# When unshare exits, it kills all processes inside.
unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside "$work" "$envoy"
