#!/bin/sh
# Installs into a temporary prefix and builds consumers there: with pkg-config and with find_package, in C and C++, shared and static.
# The shared library must export what the installed header declares, no more, no less. usage: check_install.sh CC BUILD
set -eu
cc=$1
build=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

DESTDIR='' cmake --install "$build" --prefix "$dir/prefix" >"$dir/log"
PKG_CONFIG_PATH=$(dirname "$(find "$dir/prefix" -name verdit.pc)")
lib=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH

# Declared: names before a parenthesis outside comments, callback types left out.
sed -e 's://.*$::' "$dir/prefix/include/verdit.h" | "$cc" -E -P -x c - | grep -o 'vd_[a-z0-9_]*(' | tr -d '(' | grep -v '_fn$' | sort -u >"$dir/declared"
nm -D --defined-only "$lib/libverdit.so" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$dir/exported"
if ! diff "$dir/declared" "$dir/exported" >"$dir/diff"; then
    echo "check_install.sh: the header (<) and the shared library (>) differ:" >&2
    cat "$dir/diff" >&2
    exit 1
fi
readelf -d "$lib/libverdit.so" | grep -q 'SONAME.*libverdit.so.0\]'

cat >"$dir/consumer.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <verdit.h>
int main(void)
{
    vd_context *ctx = NULL;
    vd_options  options;
    vd_options_init(&options);
    options.threads = -1;
    int right = vd_open(&options, &ctx) == VD_BAD_ARGUMENT && strstr(vd_error_text(ctx), "-1") != NULL;
    vd_close(ctx);
    right = right && vd_open(NULL, &ctx) == VD_OK;
    vd_close(ctx);
    puts(right ? "consumer ok" : "consumer wrong");
    return !right;
}
END
cp "$dir/consumer.c" "$dir/consumer.cpp"

expect_ok() {
    [ "$(LD_LIBRARY_PATH=$lib "$1")" = "consumer ok" ]
    echo "$(basename "$1"): ok"
}

# shellcheck disable=SC2046 # pkg-config prints a list of words
{
    "$cc" -std=c17 "$dir/consumer.c" -o "$dir/pkg-config-c" $(pkg-config --cflags --libs verdit)
    "$cc" -std=c++17 -x c++ "$dir/consumer.cpp" -o "$dir/pkg-config-c++" $(pkg-config --cflags --libs verdit)
    "$cc" -std=c17 "$dir/consumer.c" -o "$dir/pkg-config-static" $(pkg-config --cflags verdit) "$lib/libverdit.a" \
        $(pkg-config --static --libs verdit | sed 's/-lverdit//')
}
expect_ok "$dir/pkg-config-c"
expect_ok "$dir/pkg-config-c++"
expect_ok "$dir/pkg-config-static"

mkdir "$dir/project"
cp "$dir"/consumer.c "$dir"/consumer.cpp "$dir/project"
cat >"$dir/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
find_package(verdit 0.1 REQUIRED CONFIG)
add_executable(cmake-c consumer.c)
target_link_libraries(cmake-c verdit::verdit)
add_executable(cmake-c++ consumer.cpp)
target_link_libraries(cmake-c++ verdit::verdit)
add_executable(cmake-static consumer.c)
target_link_libraries(cmake-static verdit::verdit_static)
END
cmake -S "$dir/project" -B "$dir/out" -G Ninja -DCMAKE_PREFIX_PATH="$dir/prefix" -DCMAKE_C_COMPILER="$cc" >>"$dir/log"
cmake --build "$dir/out" >>"$dir/log" || { cat "$dir/log" >&2; exit 1; }
expect_ok "$dir/out/cmake-c"
expect_ok "$dir/out/cmake-c++"
expect_ok "$dir/out/cmake-static"
