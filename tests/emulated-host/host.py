#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A stock KVM anywhere: a Debian kernel with kvm_amd under QEMU's software emulation, and our tests inside.

host.py BUILD list OUTPUT          write the CTest file that knows every test inside
host.py BUILD boot VARIANT [REGEX] run the tests inside, keep their results in BUILD/emulated-host/VARIANT
host.py BUILD report VARIANT TEST  say how a test ended there
host.py BUILD retries VARIANT      say which tests had to be tried again: exit 77 if any
host.py BUILD shell VARIANT        a shell inside, with pageferry and the tests
host.py BUILD exec VARIANT COMMAND run a command inside with a terminal, exit with its status; files that the command
                                   names by absolute paths are copied in, Python scripts with their modules
"""
import json
import os
import re
import shlex
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(1, os.path.join(TOP, "tools"))

import image  # noqa: E402
import machine  # noqa: E402
import plan  # noqa: E402
import suite  # noqa: E402
from linux_guest import debian  # noqa: E402

SKIPPED = 77


def boot(build, variant, pattern=".*"):
    tests = [test for test in plan.chosen(variant, plan.tests(build)) if re.search(pattern, test["name"])]
    if not tests:
        print(f"no test of {variant} matches {pattern}", file=sys.stderr)
        return 2
    run = suite.Suite(build, variant, tests)
    if run.run():
        return 0
    print(f"the emulated host {variant} did not come up; its console:")
    with open(run.console(), errors="replace", encoding="utf-8") as file:
        print(file.read()[-8000:])
    return 1


def report(build, variant, name):
    path = os.path.join(suite.directory(build, variant), f"{name}.json")
    if not os.path.exists(path):
        print(f"no result of {name}: the emulated host {variant} did not run it")
        return 1
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    print(f"inside {variant}: kernel {result['up']['kernel']}, npt {result['up']['npt']}")
    for number, attempt in enumerate(result["attempts"], 1):
        print(f"--- attempt {number}: status {attempt['code']}, {attempt['seconds']} s\n{attempt['output']}")
        for message in attempt["messages"]:
            print(f"kernel: {message}")
    return result["attempts"][-1]["code"]


def retries(build, variant):
    """What had to be tried twice, as a skip: the summary lists it, and it need not be ours."""
    directory = suite.directory(build, variant)
    again = []
    for name in sorted(name for name in os.listdir(directory) if name.endswith(".json")):
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            attempts = json.load(file)["attempts"]
        if len(attempts) > 1:
            again.append(f"{name[:-5]}: status {', then '.join(str(attempt['code']) for attempt in attempts)}")
    if not again:
        print("every test ended at its first attempt")
        return 0
    print("tried again:", *again, sep="\n")
    return SKIPPED


def quoted(*words):
    """Words of a CTest command line: bracket arguments, which need no escapes."""
    return " ".join(f"[==[{word}]==]" for word in words)


def write_list(build, output):
    """One test boots a variant, as the fixture of those that each report how one test ended inside."""
    command = (plan.PYTHON, "-B", os.path.abspath(__file__), build)
    lines = ["# Made by host.py from CTest's list.\n"]

    def add(name, words, properties):
        lines.append(f"add_test({quoted(name, *command, *words)})\n"
                     f"set_tests_properties({quoted(name)} PROPERTIES LABELS emulated-host {properties})\n")

    for variant in plan.ORDINARY:
        fixture = quoted(f"emulated.{variant}")
        add(f"emulated.{variant}.boot", ("boot", variant), f"FIXTURES_SETUP {fixture} TIMEOUT {plan.CTEST_LIMIT_S}")
        for test in plan.chosen(variant, plan.tests(build)):
            add(f"emulated.{variant}.{test['name']}", ("report", variant, test["name"]),
                f"FIXTURES_REQUIRED {fixture} SKIP_RETURN_CODE {SKIPPED} TIMEOUT 60")
        add(f"emulated.{variant}.no_retries", ("retries", variant),
            f"FIXTURES_REQUIRED {fixture} SKIP_RETURN_CODE {SKIPPED} TIMEOUT 60")
    text = "".join(lines)
    if not os.path.exists(output) or open(output, encoding="utf-8").read() != text:
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def is_python(path):
    """Whether a script's first line asks for Python: then its modules go with it."""
    with open(path, "rb") as file:
        return re.match(rb"#!.*python3", file.readline()) is not None


# As for the tests: what hold_vms.py is there for.
HOLD = f"""{plan.PYTHON} -B /inside/hold_vms.py >/run/held &
tries=0
until grep -q held /run/held || [ $((tries += 1)) -gt 100 ]; do sleep 0.1; done
"""


def interactive(build, variant, task, programs=()):
    """Does a task inside with this terminal as its console, and more programs; the status it wrote to its second
    serial port.
    """
    cache = os.path.join(build, "emulated-host", "cache")
    directory = suite.directory(build, f"{variant}.interactive")
    os.makedirs(directory, exist_ok=True)
    made = image.base(debian.busybox(cache))
    made.program(os.path.join(build, "tools", "pageferry"))
    made.program("/bin/bash")
    made.file(os.path.join(TOP, "tools", "demo"))
    hold = ""
    if os.path.exists(os.path.join(build, "tests", "CTestTestfile.cmake")):
        suite.add_tests(made, build, plan.tests(build))
        hold = HOLD
    for program in programs:
        if is_python(program):
            made.python(plan.PYTHON, [program])
        made.program(program)
    made.data("/inside/task", f"export PAGEFERRY={build}/tools/pageferry PATH=$PATH:{build}/tools\n{hold}{task}"
              "echo \"{\\\"event\\\": \\\"exit\\\", \\\"code\\\": $?}\" >/dev/ttyS1\n".encode())
    process, path = machine.boot(cache, directory, plan.VARIANTS[variant], made)
    process.wait()
    ended = [record["code"] for record in machine.Records(path).new() if record["event"] == "exit"]
    return ended[0] if ended else 1


def shell(build, variant):
    return interactive(build, variant, "cd /root\nsetsid cttyhack sh\n")


# The console inside is a terminal; what is not one here should not be taken for one there, and gets no carriage
# returns. What the command leaves running is not waited for, but its output is.
NO_TERMINAL = """stty -F /dev/console -opost
mkfifo /run/out
cat </run/out &
%s >/run/out 2>&1
status=$?
for _ in 1 2 3 4 5; do kill -0 $! 2>/dev/null && sleep 0.1; done
(exit $status)
"""


def execute(build, variant, *command):
    line = f"{shlex.join(command)}\n"
    if not sys.stdout.isatty():
        line = NO_TERMINAL % line.strip()
    programs = [word for word in command if os.path.isabs(word) and os.path.isfile(word)]
    return interactive(build, variant, line, programs)


COMMANDS = {"list": write_list, "boot": boot, "report": report, "retries": retries, "shell": shell, "exec": execute}


def main():
    if len(sys.argv) < 4 or sys.argv[2] not in COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[2] != "list" and sys.argv[3] not in plan.VARIANTS:
        print(f"there is no variant {sys.argv[3]}: {', '.join(plan.VARIANTS)}", file=sys.stderr)
        return 2
    try:
        return COMMANDS[sys.argv[2]](os.path.abspath(sys.argv[1]), *sys.argv[3:])
    except debian.Unavailable as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
