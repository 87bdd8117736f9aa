# SPDX-License-Identifier: MIT
"""Runs a list of tests in an emulated host and keeps, for each, a file that says how it ended and what it printed. A
host that dies is booted again for the tests that are left; a hang ends by a limit.
"""
import fcntl
import json
import os
import shutil
import time

import image
import machine
import plan
from linux_guest import debian, guest

ATTEMPTS = 2
BOOTS = 4
BOOT_LIMIT_S = 120
# For a host that no longer runs its own clock: beyond what the test's limit inside allows.
GRACE_S = 30
HOST_DIED = 1
# What the tests call that Debian's busybox lacks.
TOOLS = ("ip", "pgrep", "qemu-system-x86_64", "tc", "zstd")
# Of QEMU: what it loads for a microvm with a kernel. Scripts of ours that tests run.
FIRMWARE = ("/usr/share/qemu/pvh.bin", "/usr/share/qemu/bios-microvm.bin")
SCRIPTS = ("compare-qemu",)


class Suite:
    def __init__(self, build, variant, tests):
        self.variant, self.tests = variant, tests
        self.cache = os.path.join(build, "emulated-host", "cache")
        self.build = build
        self.directory = directory(build, variant)
        self.attempts = {test["name"]: [] for test in tests}
        self.finished = set()
        self.boots = 0
        self.up = None
        self.until = 0

    def console(self, boot=None):
        return os.path.join(self.directory, f"console.{boot or self.boots}.log")

    def run(self):
        """True if the host came up. A test without a result was not reached."""
        os.makedirs(os.path.dirname(self.directory), exist_ok=True)
        lock = open(f"{self.directory}.lock", "w", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise debian.Unavailable(f"another emulated host works in {self.directory}: wait until it is done") from None
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)
        self.until = time.monotonic() + plan.SUITE_LIMIT_S * plan.scale()
        while self.boots < BOOTS and time.monotonic() < self.until and len(self.finished) < len(self.tests):
            self.boots += 1
            self._boot()
            if not self.up:
                break
        return bool(self.up)

    def _image(self):
        left = [dict(test, attempt=len(self.attempts[test["name"]]) + 1) for test in self.tests
                if test["name"] not in self.finished]
        made = image.base(debian.busybox(self.cache))
        add_tests(made, self.build, left)
        add_linux_guest(made, self.build, left, plan.VARIANTS[self.variant].kernel)
        made.data("/inside/plan.json", json.dumps({"tests": left, "attempts": ATTEMPTS}).encode())
        made.data("/inside/task", f"{plan.PYTHON} -B /inside/run_tests.py\n".encode())
        return made

    def _boot(self):
        process, path = machine.boot(self.cache, self.directory, plan.VARIANTS[self.variant], self._image(),
                                     self.console())
        records = machine.Records(path)
        now = time.monotonic()
        state = {"test": None, "since": now, "until": now + BOOT_LIMIT_S * plan.scale(), "done": False,
                 "pid": process.pid}
        try:
            while True:
                ended = process.poll() is not None
                for record in records.new():
                    self._take(record, state)
                if ended:
                    break
                if time.monotonic() > min(state["until"], self.until):
                    state["why"] = "the emulated host hung, or took too long for all tests, and was ended"
                    break
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
        if state["test"] and not state["done"]:
            self._host_died(state)
        os.unlink(os.path.join(self.directory, "initramfs.cpio"))

    def _take(self, record, state):
        event = record["event"]
        if event == "up":
            self.up = {"kernel": record["kernel"], "npt": record["npt"]}
            print(f"{self.variant}: kernel {record['kernel']}, npt {record['npt']}", flush=True)
        elif event == "begin":
            limit = next(test["limit_s"] for test in self.tests if test["name"] == record["test"])
            now = time.monotonic()
            state.update(test=record["test"], since=now, until=now + limit + GRACE_S, output="",
                         cpu=cpu_seconds(state["pid"]))
        elif event == "output":
            state["output"] += record["text"]
        elif event == "end":
            self._attempt({**record, "output": state["output"],
                           "cpu_seconds": round(cpu_seconds(state["pid"]) - state["cpu"], 1)})
            state.update(test=None, until=time.monotonic() + GRACE_S)
        elif event == "done":
            state["done"] = True

    def _attempt(self, record):
        name = record["test"]
        attempts = self.attempts[name]
        attempts.append({key: record[key] for key in ("code", "seconds", "cpu_seconds", "output", "messages")})
        with open(os.path.join(self.directory, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump({"up": self.up, "attempts": attempts}, file, indent=1)
        print(f"{self.variant}: {name} attempt {len(attempts)}: status {record['code']}, {record['seconds']} s, "
              f"{record['cpu_seconds']} s of CPU",
              flush=True)
        if record["code"] in (0, 77) or len(attempts) >= ATTEMPTS:
            self.finished.add(name)

    def _host_died(self, state):
        with open(self.console(), errors="replace", encoding="utf-8") as file:
            tail = file.read()[-6000:]
        why = state.get("why", "the emulated host died")
        self._attempt({"test": state["test"], "code": HOST_DIED, "messages": [], "cpu_seconds": 0,
                       "seconds": round(time.monotonic() - state["since"], 1),
                       "output": f"{state['output']}\n{why} during this test; the end of its console:\n{tail}\n"})


def cpu_seconds(pid):
    """What QEMU has computed: unlike the time that passed, it does not grow when the machine does other things too."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def directory(build, variant):
    return os.path.join(build, "emulated-host", variant)


def add_tests(made, build, tests):
    """Puts the tests' programs, scripts and what they use into the image."""
    here = os.path.dirname(os.path.abspath(__file__))
    e2e = os.path.join(os.path.dirname(here), "e2e")
    scripts = [os.path.join(where, name) for where in (e2e, os.path.join(here, "inside"))
               for name in sorted(os.listdir(where)) if name.endswith(".py")]
    scripts += [os.path.join(os.path.dirname(os.path.dirname(here)), "tools", name) for name in SCRIPTS]
    made.python(plan.PYTHON, scripts)
    for script in scripts:
        if os.path.dirname(script) != os.path.join(here, "inside"):
            made.file(script)
    for where, _, names in os.walk(os.path.join(os.path.dirname(here), "data")):
        for name in names:
            made.file(os.path.join(where, name))
    made.file(os.path.join(build, "guest", "testguest.elf"))
    for name in filter(None, map(shutil.which, TOOLS)):
        made.program(name)
    for name in filter(os.path.exists, FIRMWARE):
        made.file(name)
    for test in tests:
        if not test["command"]:
            raise debian.Unavailable(f"{test['name']} is not built: build everything in {build} first")
        for word in [*test["command"], *test["environment"].values()]:
            if word.startswith(build) and os.path.isfile(word):
                made.program(word)
        made.directory(test["directory"])


def add_linux_guest(made, build, tests, kernel):
    """The guest that tests ask for by their environment, with the kernel that the host has too."""
    for where in {test["environment"]["PAGEFERRY_LINUX_GUEST"] for test in tests
                  if "PAGEFERRY_LINUX_GUEST" in test["environment"]}:
        os.makedirs(where, exist_ok=True)
        guest.make_initramfs(build, os.path.join(where, "initramfs.cpio"))
        guest.make_kernel(build, kernel, os.path.join(where, f"vmlinuz-{kernel}"))
        guest.make_kernel(build, kernel, os.path.join(where, f"vmlinux-{kernel}"), unpacked=True)
        for name in ("initramfs.cpio", f"vmlinuz-{kernel}", f"vmlinux-{kernel}"):
            made.file(os.path.join(where, name))
