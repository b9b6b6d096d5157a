#!/bin/sh
# Installs the Debian packages that the named groups need: install_deps.sh GROUP... with groups build, test, arm, torch, bench.
# Quick and silent when all are there. Without root or sudo it prints the command to run and fails.
set -eu

list_packages() {
    case $1 in
    build) echo make clang libomp-dev cmake ninja-build pkg-config libjansson-dev libssl-dev ;;
    test) echo gcc g++ libclang-rt-dev libcmocka-dev python3 ;;
    arm) echo qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross ca-certificates ;;
    torch) echo python3 python3-venv ;;
    bench) echo libdnnl-dev libopenblas-dev ;;
    *)
        echo "install_deps.sh: no group '$1'; groups are build, test, arm, torch, bench" >&2
        exit 2
        ;;
    esac
}

wanted=
for group; do
    packages=$(list_packages "$group") || exit $?
    wanted="$wanted $packages"
done

if ! command -v dpkg-query >/dev/null; then
    echo "install_deps.sh: not a Debian system; nothing installed. Debian's names for what is needed:$wanted" >&2
    exit 0
fi

missing=
for package in $wanted; do
    if ! dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed; then
        missing="$missing $package"
    fi
done
if [ -z "$missing" ]; then
    exit 0
fi

as_root=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        as_root="sudo"
    else
        echo "install_deps.sh: these Debian packages are missing, and this is neither root nor a user of sudo. As root, run:" >&2
        echo "    apt-get update && apt-get install -y$missing" >&2
        exit 1
    fi
fi

echo "Installing:$missing" >&2
install_missing() {
    # shellcheck disable=SC2086 # a list of words
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing </dev/null
}
# The lists may be absent or old: they are fetched only when a name is unknown, or the first try fails.
for package in $missing; do
    if ! apt-cache show "$package" >/dev/null 2>&1; then
        $as_root apt-get update -q </dev/null
        break
    fi
done
if ! install_missing; then
    $as_root apt-get update -q </dev/null
    install_missing
fi
