#!/bin/sh
# The public header compiles alone, in C17 and in C++17, with pedantic warnings as errors. usage: check_headers.sh CC ROOT
set -eu
cc=$1
root=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for header in "$root"/include/*.h; do
    name=$(basename "$header")
    printf '#include "%s"\n#include "%s"\n' "$name" "$name" >"$dir/alone.c"
    "$cc" -std=c17 -x c -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -I"$root/include" -fsyntax-only "$dir/alone.c"
    "$cc" -std=c++17 -x c++ -Wall -Wextra -Wpedantic -Werror -I"$root/include" -fsyntax-only "$dir/alone.c"
    echo "$name compiles alone in C17 and C++17"
done

# The check can fail: a header that leans on another, and one that is C only.
printf 'size_t vd_lean(void);\n' >"$dir/lean.h"
printf 'int *vd_new(int class);\n' >"$dir/c_only.h"
for case in "c17 c lean.h" "c++17 c++ c_only.h"; do
    # shellcheck disable=SC2086
    set -- $case
    printf '#include "%s"\n' "$3" >"$dir/planted.c"
    if "$cc" "-std=$1" -x "$2" -I"$dir" -fsyntax-only "$dir/planted.c" 2>/dev/null; then
        echo "check_headers.sh: the planted header $3 was not found" >&2
        exit 1
    fi
done
