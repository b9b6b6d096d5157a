#!/usr/bin/env python3
"""Golden tests of the program: scripts of commands with what they must print, and how they must end.

A script is a text file, run from top to bottom in a new empty folder:
    # a remark
    $ a shell command; `verdit` is the program under test
    > a line that must come on standard output
    ! a line that must come on standard error
    exit 3          how the command must end; 0 unless said
In expected lines {*} stands for any text, {n} for a number, {hex} for hexadecimal digits; a line that is only `...` for any number of lines. Everything else
is exact. What is not said is expected not to come. A line NOTE … on standard output is passed on instead (what this machine could not test).

    run.py VERDIT SCRIPT...            runs scripts; exit 1 if anything differs
    run.py --show VERDIT SCRIPT        prints the script with what really came, to make a golden file from after reading it

VERDIT_EMULATOR in the environment is the command that VERDIT needs to run, if it is another machine's program.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARKS = {"{*}": ".*", "{n}": r"[0-9][0-9.e+\-]*", "{hex}": "[0-9a-f]+"}


class Step:
    def __init__(self, line_number, command):
        self.line_number, self.command = line_number, command
        self.out, self.err, self.exit, self.before = [], [], 0, []


def read_script(path):
    steps, remarks = [], []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if line.startswith("$ "):
                steps.append(Step(number, line[2:]))
                steps[-1].before, remarks = remarks, []
            elif line.startswith("> ") or line == ">":
                steps[-1].out.append(line[2:])
            elif line.startswith("! ") or line == "!":
                steps[-1].err.append(line[2:])
            elif line.startswith("exit "):
                steps[-1].exit = int(line[5:])
            elif line.startswith("#"):
                remarks.append(line)
            elif line:
                sys.exit(f"{path}:{number}: not understood: {line}")
    return steps


def to_pattern(line):
    return "".join(MARKS.get(part, re.escape(part)) for part in re.split(r"(\{\*\}|\{n\}|\{hex\})", line))


def matches(expected, actual):
    if not expected:
        return not actual
    if expected[0] == "...":
        return any(matches(expected[1:], actual[i:]) for i in range(len(actual) + 1))
    return bool(actual) and re.fullmatch(to_pattern(expected[0]), actual[0]) is not None and matches(expected[1:], actual[1:])


def run_step(step, folder, environment):
    done = subprocess.run(["bash", "-c", step.command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    out = done.stdout.decode("utf-8", "backslashreplace").splitlines()
    err = done.stderr.decode("utf-8", "backslashreplace").splitlines()
    notes = [line for line in out if line.startswith("NOTE ")]
    return [line for line in out if line not in notes], err, done.returncode, notes


def run_script(path, environment, show):
    failures = 0
    folder = tempfile.mkdtemp(prefix="verdit-cli-")
    try:
        for step in read_script(path):
            out, err, code, notes = run_step(step, folder, environment)
            for note in notes:
                print(f"{os.path.basename(path)}: {note[5:]}")
            if show:
                print("".join(f"{line}\n" for line in step.before) + f"$ {step.command}")
                print("".join(f"> {line}\n" for line in out) + "".join(f"! {line}\n" for line in err) + (f"exit {code}\n" if code else ""))
                continue
            wrong = []
            if code != step.exit:
                wrong.append(f"exit {code}, expected {step.exit}")
            if not matches(step.out, out):
                wrong.append("standard output:\n" + "".join(f"    {line}\n" for line in out) + "  expected:\n" + "".join(f"    {line}\n" for line in step.out))
            if not matches(step.err, err):
                wrong.append("standard error:\n" + "".join(f"    {line}\n" for line in err) + "  expected:\n" + "".join(f"    {line}\n" for line in step.err))
            if wrong:
                failures += 1
                print(f"{path}:{step.line_number}: {step.command}")
                print("\n".join(f"  {text}" for text in wrong))
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    return failures


def main():
    arguments = sys.argv[1:]
    show = arguments[:1] == ["--show"]
    if show:
        arguments = arguments[1:]
    if len(arguments) < 2:
        sys.exit(__doc__)
    program = os.path.abspath(arguments[0])
    with tempfile.TemporaryDirectory(prefix="verdit-bin-") as folder:
        wrapper = os.path.join(folder, "verdit")
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {os.environ.get("VERDIT_EMULATOR", "")} {shlex.quote(program)} "$@"\n')
        os.chmod(wrapper, 0o755)
        tests = os.path.dirname(os.path.abspath(__file__))
        environment = dict(os.environ, PATH=folder + os.pathsep + os.environ["PATH"], LC_ALL="C.UTF-8", ROOT=ROOT, TESTS=tests)
        failures = sum(run_script(path, environment, show) for path in arguments[1:])
    if failures:
        print(f"{failures} commands differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
