#!/usr/bin/env bash
# Writes the chart as a release has it: chart.sh DIRECTORY VERSION, to DIRECTORY/weir,
# with the files that deploy/chart links to. VERSION is the tag of the image, and the
# version of the chart where it has the form that Helm asks for.
set -euo pipefail
cd "$(dirname "$0")/.."
chart=$1/weir version=$2
number=${version#v}
[[ $number =~ ^[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$ ]] || number=0.0.0-g$number

mkdir -p "$chart"
git -C deploy/chart ls-files -z | tar -C deploy/chart --null -T - --dereference -cf - | tar -C "$chart" -xf -
sed -i "s/^version: .*/version: $number/; s/^appVersion: .*/appVersion: \"$version\"/" "$chart/Chart.yaml"
# The documents that it links to are not in the chart.
sed -i -E 's/\[([^]]*)\]\([^)]*\)/\1/g' "$chart/files/settings.md"
