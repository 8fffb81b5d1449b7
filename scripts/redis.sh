#!/usr/bin/env bash
# Gets another Redis for tests: unpacks redis-server or valkey-server of a Debian release
# with the C library that it was built for, and prints the directory that contains it
# under the name redis-server. Put this directory first in PATH.
#
#   redis.sh bullseye redis-server   Redis 6.0
#   redis.sh trixie redis-server     Redis 8.0
#   redis.sh trixie valkey-server    Valkey 8.1
#
# It needs apt-get and the keys of that release, and installs nothing in the system.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$1 package=$2

dir=$PWD/.tools/$package-$release
if [[ ! -x $dir/bin/redis-server ]]; then
  rm -rf "$dir"
  mkdir -p "$dir"/{lists/partial,archives/partial,root,bin}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $release main" >"$dir/sources.list"
  # The state of an empty system, so that apt-get also fetches libraries that are installed.
  apt=(apt-get -qq -o APT::Sandbox::User=root -o Dir::State::status=/dev/null
    -o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir" -o "Dir::Cache::archives=$dir/archives")
  "${apt[@]}" update >&2
  "${apt[@]}" install --no-install-recommends --download-only --yes "$package" >&2
  for archive in "$dir"/archives/*.deb; do
    dpkg-deb --extract "$archive" "$dir/root"
  done
  rm -r "$dir/archives" "$dir/lists"
  loader=$(find "$dir/root" -name 'ld-*.so*' -type f)
  libraries=$(find "$dir/root" -name '*-linux-gnu' -type d -path '*/lib/*' | paste -s -d :)
  printf '#!/bin/sh\nexec %q --library-path %q %q "$@"\n' "$loader" "$libraries" "$dir/root/usr/bin/$package" >"$dir/bin/redis-server"
  chmod +x "$dir/bin/redis-server"
fi
echo "$dir/bin"
