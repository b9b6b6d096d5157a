#!/usr/bin/env python3
"""Asserts from the object code that the library has no mutable globals, and that every external name carries the prefix vd_.
usage: check_symbols.py libverdit.a
"""
import re
import subprocess
import sys
from pathlib import Path

# objdump -t: value, seven flag characters, section, size, name
SYMBOL = re.compile(r"^[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)\s+(?:\.hidden )?(\S+)$", re.M)


def check(table):
    faults = []
    for flags, section, size, name in SYMBOL.findall(table):
        mutable = re.fullmatch(r"\.(data|bss|tdata|tbss)(\.(?!rel\.ro).*)?|\*COM\*", section)
        if mutable and "O" in flags and int(size, 16):
            faults.append(f"{name}: a mutable global ({section}, {int(size, 16)} bytes); what changes lives in the context")
        if flags[0] == "g" and section != "*UND*" and not name.startswith(("vd_", "__odr_asan", ".")):
            faults.append(f"{name}: an external name without the prefix vd_")
    return faults


def check_the_checks():
    planted = (
        "0000000000000000 l     O .bss\t0000000000000008 count.0\n",
        "0000000000000000 g     O .data\t0000000000000004 vd_count\n",
        "0000000000000000 g     F .text\t0000000000000010 helper\n",
    )
    if not all(check(line) for line in planted):
        sys.exit("check_symbols.py: a planted symbol was not found")
    if check("0000000000000000 g     F .text\t0000000000000010 vd_open\n0000000000000000 l     O .data.rel.ro.local\t0000000000000010 names\n"):
        sys.exit("check_symbols.py: honest symbols were found faulty")


def main():
    check_the_checks()
    table = subprocess.run(["objdump", "-t", str(Path(sys.argv[1]))], check=True, capture_output=True, text=True).stdout
    count, faults = len(SYMBOL.findall(table)), check(table)
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{count} symbols, {len(faults)} faults")
    sys.exit(1 if faults or not count else 0)


main()
