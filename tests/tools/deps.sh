#!/usr/bin/env bash
# Installs the Debian packages named in the given files that are not installed yet.
set -euo pipefail

mapfile -t wanted < <(sed 's/#.*//' "$@" | tr -s '[:space:]' '\n' | sed '/^$/d')
missing=()
for package in "${wanted[@]}"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "These Debian packages are missing: ${missing[*]}. Install them as root: apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "== Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install --yes --no-install-recommends "${missing[@]}" >/dev/null
