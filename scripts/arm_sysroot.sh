#!/bin/sh
# Lays the few arm64 libraries that the tests need into a folder, without touching the system: arm_sysroot.sh FOLDER.
# apt works on lists and caches of its own there, so no foreign architecture is added to this machine and no root is needed.
set -eu
folder=$1
if [ -e "$folder/complete" ]; then
    exit 0
fi
packages="libjansson-dev libjansson4 libssl-dev libssl3 libcmocka-dev libcmocka0"

rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/debs"
folder=$(realpath "$folder")
: >"$folder/apt/status"
apt_arm() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$folder/apt" -o Dir::State::lists="$folder/apt/lists" \
        -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}
# Other people's repositories may have nothing for arm64: Debian's own answer is what counts.
apt_arm update >"$folder/apt/log" 2>&1 || true
# shellcheck disable=SC2086 # a list of words
if ! (cd "$folder/debs" && apt_arm download $packages) >>"$folder/apt/log" 2>&1; then
    tail -n 20 "$folder/apt/log" >&2
    echo "arm_sysroot.sh: Debian's arm64 packages could not be fetched: $packages" >&2
    exit 1
fi
for deb in "$folder"/debs/*.deb; do
    dpkg-deb -x "$deb" "$folder"
done
rm -rf "$folder/apt" "$folder/debs"
: >"$folder/complete"
