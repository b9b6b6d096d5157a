#!/usr/bin/env python3
"""Enforces the tree's arrows from the #include lines, and the rules of the house that text shows: the library never prints, exits or
aborts; files stay short. usage: check_layers.py ROOT
"""
import re
import sys
from pathlib import Path

# layer: the layers whose headers it may include, besides its own and verdit.h
ARROWS = {
    "core": [],
    "contract": ["core"],
    "kernels": ["contract", "core"],
    "formats": ["core"],
    "models": ["kernels", "contract", "formats", "core"],
    "gate": ["models", "kernels", "contract", "formats", "core"],
    "audit": ["models", "kernels", "contract", "formats", "core"],
    "api": ["gate", "audit", "models", "kernels", "contract", "formats", "core"],
}
SHARED = ("cpu", "replay")  # what every CPU level builds its replay of the tensor core from
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
TALKS = re.compile(r"\b(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|abort|quick_exit|assert)\s*\(|\b(stderr|stdout)\b")
MOST_LINES, MANY_LINES = 700, 600


def layer_of(path):
    parts = Path(path).parts
    if parts[0] == "src":
        return parts[1] if len(parts) > 2 else None
    return parts[0] if parts[0] in ("cli", "include") else None


def check_includes(path, text):
    layer, faults = layer_of(path), []
    if layer is None and Path(path).parts[0] != "src":
        return []
    for name in INCLUDE.findall(text):
        if name == "verdit.h":
            continue
        if layer == "cli":
            if "/" in name:
                faults.append(f'{path}: the program knows verdit.h and its own folder only, not "{name}"')
        elif layer == "include":
            faults.append(f'{path}: a public header stands alone, without "{name}"')
        elif layer not in ARROWS:
            faults.append(f"{path}: no such layer in the design: {layer}")
        elif "/" not in name:
            faults.append(f'{path}: "{name}" must be named from src/, as "{Path(*Path(path).parts[1:-1]) / name}"')
        elif name.split("/")[0] not in [layer, *ARROWS[layer]]:
            faults.append(f'{path}: {layer} may not know "{name}"; it may know {", ".join([layer, *ARROWS[layer]])}')
        elif layer == "kernels":
            own, other = Path(path).parts[2:-1], Path(name).parts[1:-1]
            if name.startswith("kernels/") and own[: len(other)] != other and (other != SHARED or own[0] != "cpu"):
                faults.append(f'{path}: a kernel level may not know another level\'s "{name}"')
    return faults


def check_manners(path, text):
    if layer_of(path) in (None, "cli", "include"):
        return []
    bare = COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    return [f"{path}:{bare[:m.start()].count(chr(10)) + 1}: the library never prints, exits or aborts: {m.group().strip()}" for m in TALKS.finditer(bare)]


def check_length(path, text):
    lines = text.count("\n")
    if lines > MOST_LINES and "enerated by" not in text[:1000]:
        return [f"{path}: {lines} lines, over {MOST_LINES} (150 to {MANY_LINES} are wanted): split it"]
    return []


def check(path, text):
    return check_includes(path, text) + check_manners(path, text) + check_length(path, text)


def check_the_checks():
    """Each planted fault must be found, and an honest file pass; otherwise this test could not fail."""
    faulty = [
        ("src/core/a.c", '#include "formats/json.h"\n'),
        ("src/kernels/cpu/avx2/a.c", '#include "models/x.h"\n'),
        ("src/kernels/cpu/avx2/a.c", '#include "kernels/cpu/avx512/x.h"\n'),
        ("src/kernels/cpu/replay/a.h", '#include "kernels/cpu/avx512/x.h"\n'),
        ("src/kernels/cuda/a.c", '#include "kernels/cpu/replay/x.h"\n'),
        ("src/formats/a.c", '#include "contract/contract.h"\n'),
        ("src/gate/a.c", '#include "audit/receipt.h"\n'),
        ("src/formats/a.c", '#include "json.h"\n'),
        ("src/new/a.c", '#include "core/core.h"\n'),
        ("cli/a.c", '#include "core/core.h"\n'),
        ("include/verdit.h", '#include "core/core.h"\n'),
        ("src/core/a.c", 'void f(void) { printf("x"); }\n'),
        ("src/core/a.c", 'void f(void) { fprintf(stderr, "x"); }\n'),
        ("src/core/a.c", "void f(void) { abort(); }\n"),
        ("src/core/a.c", "\n" * 701),
    ]
    for path, text in faulty:
        if not check(path, text):
            sys.exit(f"check_layers.py: a planted fault was not found: {path}: {text.strip()[:60]}")
    honest = '#include <stdio.h>\n#include "verdit.h"\n#include "core/core.h"\n#include "kernels/cpu/x.h"\n#include "kernels/cpu/replay/x.h"\n/* exit() */ int a = snprintf("printf()");\n'
    if check("src/kernels/cpu/avx2/a.c", honest):
        sys.exit("check_layers.py: an honest file was found faulty")


def main():
    check_the_checks()
    root, faults, count = Path(sys.argv[1]), [], 0
    for folder in ("include", "src", "cli", "tests", "bench"):
        for file in sorted((root / folder).rglob("*.[ch]")):
            faults += check(str(file.relative_to(root)), file.read_text(encoding="utf-8"))
            count += 1
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{count} files, {len(faults)} faults")
    sys.exit(1 if faults or not count else 0)


main()
