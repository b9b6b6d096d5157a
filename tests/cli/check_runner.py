#!/usr/bin/env python3
"""The runner must notice a wrong exit, a missing line, a line too many, and a changed line."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOOD = "$ verdit --version\n> verdit {n}\n"
WRONG = {
    "exit": "$ verdit --version\n> verdit {n}\nexit 1\n",
    "missing": "$ verdit --version\n> verdit {n}\n> more\n",
    "extra": "$ verdit --version\n",
    "changed": "$ verdit --version\n> verdict {n}\n",
    "stderr": "$ verdit --version\n> verdit {n}\n! something\n",
}


def run(text):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        return subprocess.run([sys.executable, os.path.join(HERE, "run.py"), sys.argv[1], file.name], stdout=subprocess.DEVNULL).returncode


if run(GOOD) != 0:
    sys.exit("a right script fails")
for name, text in WRONG.items():
    if run(text) != 1:
        sys.exit(f"the runner did not notice: {name}")
