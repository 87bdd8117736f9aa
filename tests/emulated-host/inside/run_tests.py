# SPDX-License-Identifier: MIT
"""Runs the tests of /inside/plan.json one after another in the emulated host and reports each as one JSON line on the
second serial port. A test that failed is tried once more; both attempts are reported.
"""
import json
import os
import platform
import signal
import subprocess
import sys
import time

OUTPUT_KEPT = 48 << 10
SKIPPED = 77
TIMED_OUT = 124
WARNING = 4  # of the kernel's log levels; smaller is worse


def kernel_messages(log):
    """What the kernel has said since the last call, warnings and worse."""
    lines = []
    while True:
        try:
            record = os.read(log, 8192).decode(errors="replace")
        except BlockingIOError:
            return lines
        except OSError:  # the reader was overtaken by the writer
            continue
        head, _, text = record.partition(";")
        if int(head.split(",")[0]) & 7 <= WARNING:
            lines.append(text.splitlines()[0])


def kill_others(keep):
    """Ends what a test left behind; says what that was."""
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if command and int(pid) not in keep:
            left.append(f"{pid} {command}")
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
    return left


def follow(output, position, tell):
    """Passes on what a test has printed since; the new position."""
    output.seek(position)
    text = output.read(OUTPUT_KEPT)
    if text:
        tell(event="output", text=text.decode(errors="replace"))
    # A flood is cut short: the serial port is slow.
    return max(output.tell(), output.seek(0, os.SEEK_END) - OUTPUT_KEPT)


def run(test, tell):
    """(exit status, seconds)"""
    environment = {**os.environ, **test["environment"]}
    begin = time.monotonic()
    position = 0
    with open("/run/output", "wb") as output, open("/run/output", "rb") as reader:
        process = subprocess.Popen(test["command"], cwd=test["directory"], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        while process.poll() is None and time.monotonic() - begin < test["limit_s"]:
            time.sleep(0.1)
            position = follow(reader, position, tell)
        code = process.poll()
        if code is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = TIMED_OUT
        seconds = time.monotonic() - begin
        follow(reader, position, tell)
    if code == TIMED_OUT:
        tell(event="output", text=f"\nended after its limit of {test['limit_s']} s\n")
    elif code < 0:
        tell(event="output", text=f"\nended by signal {-code}\n")
        code = 128 - code
    return code, seconds


def main():
    with open("/inside/plan.json", encoding="utf-8") as file:
        plan = json.load(file)
    records = open("/dev/ttyS1", "w", encoding="utf-8")
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)

    def tell(**record):
        print(json.dumps(record), file=records, flush=True)

    keep = {1, os.getpid(), os.getppid()}
    holder = subprocess.Popen([sys.executable, "-B", "/inside/hold_vms.py"], stdout=subprocess.PIPE)
    keep.add(holder.pid)
    if holder.stdout.readline() != b"held\n":
        sys.exit("the VMs that must stay open could not be opened")
    with open("/sys/module/kvm_amd/parameters/npt", encoding="ascii") as file:
        npt = file.read().strip()
    tell(event="up", kernel=platform.release(), npt=npt, messages=kernel_messages(log))
    for test in plan["tests"]:
        for attempt in range(test["attempt"], plan["attempts"] + 1):
            tell(event="begin", test=test["name"], attempt=attempt)
            code, seconds = run(test, tell)
            for line in kill_others(keep):
                tell(event="output", text=f"\nleft behind: {line}\n")
            tell(event="end", test=test["name"], attempt=attempt, code=code, seconds=round(seconds, 2),
                 messages=kernel_messages(log))
            if code in (0, SKIPPED):
                break
    tell(event="done")


if __name__ == "__main__":
    main()
