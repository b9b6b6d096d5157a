#!/usr/bin/env python3
"""Asserts the flags that the bytes stand on, in every compile command of the build: contraction off, no fast-math, no -march=native, vector
flags only in their own level's folder. usage: check_flags.py BUILD ROOT
"""
import json
import re
import shlex
import sys
from pathlib import Path

FORBIDDEN = re.compile(
    r"-Ofast|-ffast-math|-funsafe-math-optimizations|-fassociative-math|-freciprocal-math|-ffinite-math-only|-fno-signed-zeros"
    r"|-frounding-math|-mdaz-ftz|-march=.*|-mcpu=.*|-mtune=native|-ffp-contract=(?!off).*|-ffp-model=(?!strict|precise).*"
    r"|-fdenormal-fp-math=.*|-flto.*|-fapprox-func"
)
LEVELS = {"avx2": r"-mavx2|-mfma|-mf16c|-mbmi2", "avx512": r"-mavx2|-mfma|-mf16c|-mbmi2|-mavx512(f|bw|dq|vl|cd)"}
LEVELS["avx512bf16"] = LEVELS["avx512"] + "|-mavx512bf16"


def check(file, flags):
    faults = [f"{file}: {flag} may change bytes" for flag in flags if FORBIDDEN.fullmatch(flag)]
    for needed in ("-ffp-contract=off", "-fno-fast-math"):
        if needed not in flags:
            faults.append(f"{file}: {needed} is missing")
    in_level = re.match(r"src/kernels/cpu/([a-z0-9]+)/", file)
    allowed = LEVELS.get(in_level.group(1) if in_level else "", "")
    for flag in flags:
        if file.startswith("src/") and re.match(r"-m(avx|sse|fma|f16c|bmi|amx)", flag) and not re.fullmatch(allowed, flag):
            faults.append(f"{file}: {flag} belongs to another level: this file must run on every CPU of its own")
    return faults


def check_the_checks():
    good = ["-O2", "-ffp-contract=off", "-fno-fast-math"]
    faulty = [["-O2"], good + ["-ffast-math"], good + ["-march=native"], good + ["-ffp-contract=fast"], good + ["-mavx2"], good + ["-flto"]]
    if not all(check("src/core/a.c", flags) for flags in faulty) or not check("src/kernels/cpu/avx2/a.c", good + ["-mavx512f"]):
        sys.exit("check_flags.py: a planted flag was not found")
    if check("src/core/a.c", good) or check("src/kernels/cpu/avx2/a.c", good + ["-mavx2", "-mfma"]):
        sys.exit("check_flags.py: honest flags were found faulty")


def main():
    check_the_checks()
    commands = json.loads((Path(sys.argv[1]) / "compile_commands.json").read_text(encoding="utf-8"))
    faults = []
    for command in commands:
        faults += check(command["file"].removeprefix(sys.argv[2] + "/"), command.get("arguments") or shlex.split(command["command"]))
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(commands)} compile commands, {len(faults)} faults")
    sys.exit(1 if faults or not commands else 0)


main()
