#!/usr/bin/env python3
"""Runs every case of a conformance kit through `verdit op` on this machine's best level: an example of how another backend would do it."""
import json
import os
import subprocess
import sys

kit = sys.argv[1]
with open(os.path.join(kit, "manifest.json"), encoding="utf-8") as file:
    manifest = json.load(file)


def read_data(path):
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    return data[8 + size:]


held, differ = 0, []
for case in manifest["cases"]:
    command = ["verdit", "op", case["operation"], "-i", os.path.join(kit, case["input"]), "-o", "mine"]
    if case["operation"] in ("linear", "attention"):
        command += ["--contract", case["contract"]]
    for option, value in case["options"].items():
        command += [f"--{option}", str(value)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if read_data("mine") == read_data(os.path.join(kit, case["output"])):
        held += 1
    else:
        differ.append(case["name"])
print(f"{held} of {len(manifest['cases'])} cases held" + (f"; different: {', '.join(differ)}" if differ else ""))
