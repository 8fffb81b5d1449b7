#!/usr/bin/env bash
# Writes the chart of a release to DIRECTORY/weir: chart.sh DIRECTORY VERSION. Files
# replace the links in deploy/chart. VERSION is the tag of the image, and the version
# of the chart if it has the format that Helm requires.
set -euo pipefail
cd "$(dirname "$0")/.."
chart=$1/weir version=$2
number=${version#v}
[[ $number =~ ^[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$ ]] || number=0.0.0-g$number

mkdir -p "$chart"
git -C deploy/chart ls-files -z | tar -C deploy/chart --null -T - --dereference -cf - | tar -C "$chart" -xf -
sed -i "s/^version: .*/version: $number/; s/^appVersion: .*/appVersion: \"$version\"/" "$chart/Chart.yaml"
# The chart does not have the documents to which this file links.
sed -i -E 's/\[([^]]*)\]\([^)]*\)/\1/g' "$chart/files/settings.md"
