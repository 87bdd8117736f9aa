# SPDX-License-Identifier: MIT
"""tools/compare-qemu: what it computes, what it refuses, and short comparisons where there is QEMU, and KVM for some."""
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types

from harness import BINARY, check, main

TOOLS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools")
SCRIPT = os.path.join(TOOLS, "compare-qemu")
BUILD = os.path.dirname(os.path.dirname(os.path.abspath(BINARY)))


def load():
    sys.path.insert(0, TOOLS)
    loader = importlib.machinery.SourceFileLoader("compare_qemu_script", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def run(*arguments):
    return subprocess.run([sys.executable, "-B", SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_pairs_with_the_best_qemu():
    script = load()
    rows = {"pageferry": [{"x": 10}, {"x": 30}, {"x": 20}],
            "qemu": [{"x": 5}, {"x": 10}, {"x": 0}],
            "qemu-ring": [{"x": 20}, {"x": 15}, {"x": 40}]}
    check(script.ratios(rows, "x", True) == ("qemu-ring", [0.5, 0.5, 2.0]), "more is better: pairs by turn")
    check(script.ratios(rows, "x", False) == ("qemu", [2.0, 3.0]), "less is better: a turn without a figure has no ratio")
    check(script.ratios({"pageferry": rows["pageferry"]}, "x", True) == (None, []), "no QEMU, no ratio")


def test_a_comparison_that_ends_early():
    script = load()
    rows = {"pageferry": [], "qemu": []}

    def measure(_options, _setup, _workload, into, _restarts):
        into["pageferry"] += [1, 2]
        into["qemu"] += [1]
        raise script.Failure("QEMU ended")
    script.measure = measure
    check(script.attempt(None, None, "idle", rows, {}) == "QEMU ended", "the problem is told")
    check(rows == {"pageferry": [1], "qemu": [1]}, f"complete turns are kept: {rows}")


def test_a_vmm_that_ends():
    """However its socket says so, it is one line."""
    script = load()
    from compare_qemu.qmp import Qmp
    for leaves_unread in (False, True):
        ours, theirs = socket.socketpair()
        vmm = Qmp.__new__(Qmp)
        vmm.socket, vmm.rest, vmm.events, vmm.seconds, vmm.process = ours, b"", [], 5, Ended()
        if leaves_unread:
            ours.sendall(b"unread")  # then a close resets
        theirs.close()
        try:
            vmm.command("stop")
            check(False, "a VMM that ended answered")
        except script.Failure as failure:
            check(str(failure) == "QEMU ended by a signal: its last words", str(failure))


def test_a_qemu_that_ends_is_booted_again():
    script = load()

    class Lane:
        name = "qemu"

        def __init__(self, ends, restarts):
            self.ends, self.allowed, self.restarts, self.hops = ends, restarts, 0, 0

        def hop(self):
            self.ends -= 1
            if self.ends >= 0:
                raise script.Ended(Ended())
            self.hops += 1
            return self.hops

        def may_restart(self):
            return self.restarts < self.allowed

        def restart(self):
            self.restarts += 1
            self.hops = 0
    check(script.hop(Lane(0, 0), "idle") == 1, "nothing ended")
    check(script.hop(Lane(2, 2), "idle") == 2, "the turn is made, by a guest that has hopped before")
    try:
        script.hop(Lane(3, 2), "idle")
        check(False, "it goes on for ever")
    except script.Failure as failure:
        check("QEMU ended by a signal" in str(failure), str(failure))


class StubProcess:
    """One process of a StubVmm."""

    def __init__(self, setup, directory):
        self.directory, self.running = directory, True
        self.popen, self.qmp = types.SimpleNamespace(pid=0), self
        setup.processes.append(self)

    def command(self, _name):
        return {}

    def guest_said(self):
        return "ready"

    def end(self):
        self.running = False

    def ended(self):
        return not self.running

    def poll_events(self):
        return [{"event": "MIGRATION", "data": {"status": "failed"}}]

    def how(self):
        return ""

    def last_words(self):
        return "gone"


class StubVmm:
    """The first two hops end it."""

    def __init__(self, setup):
        self.setup, self.ends = setup, 2

    def boot(self, directory):
        return StubProcess(self.setup, directory)

    def listen(self, directory):
        return StubProcess(self.setup, directory), "nowhere"

    def prepare(self, _process):
        self.ends -= 1
        if self.ends >= 0:
            raise self.setup.ended(Ended())


def test_a_lane_that_starts_again():
    script = load()
    from compare_qemu import lanes
    lanes.KINDS["stub"] = StubVmm
    setup = types.SimpleNamespace(memory=0, patience_s=0, glance_us=0, processes=[], ended=script.Ended)
    with tempfile.TemporaryDirectory() as scratch:
        other, lane = [lanes.EmulatedLane("stub", setup, scratch) for _ in range(2)]
        lane._measure = lambda _target, _address: {}
        check(script.hop(lane, "idle") == {} and lane.restarts == 2, f"{lane.restarts}")
        running = [process for process in setup.processes if process.running]
        check(running == [other.process, lane.process], "what ended leaves nothing behind, and others are not touched")
        lane.target = StubProcess(setup, "")
        for goes_on, kind in ((True, script.Failure), (False, script.Ended)):
            lane.target.running = goes_on
            try:
                lane._status("", time.monotonic())
                check(False, "a failed migration is one")
            except script.Failure as failure:
                check(type(failure) is kind, f"whether the destination ended is told: {failure!r}")
    check(not lanes.Lane.may_restart(lane), "a guest that KVM runs has no second try")


class Ended:
    """A process that is no more."""

    def how(self):
        return " by a signal"

    def last_words(self):
        return "its last words"

    def __str__(self):
        return "QEMU"


class Words:
    """A statistics page of two CPUs, instead of a process's."""

    def __init__(self, view, magic):
        self.words = [0] * 512
        self.words[0], self.words[2] = magic, 2
        view.words = self.words

    def beat(self, cpu, beats, work):
        self.words[8 + 8 * cpu], self.words[9 + 8 * cpu] = beats, work


def test_observer():
    load()
    from compare_qemu.observer import STATS_MAGIC, Observer, View
    seen = Observer(0, View(0), View(0))
    source, target = Words(seen.source, STATS_MAGIC), Words(seen.target, STATS_MAGIC)
    source.beat(0, 5, 100)
    source.beat(1, 6, 50)
    first = seen.glance()
    check(seen.work() == 150, "all CPUs count")
    target.beat(0, 5, 100)
    target.beat(1, 6, 50)
    seen.glance()
    check(not seen.arrived, "a copied page is no guest that runs")
    target.beat(1, 7, 51)
    second = seen.glance()
    check(seen.arrived == second and seen.blackout() == second - first and seen.work() == 151, "the first beat beyond it")


def test_refuses():
    for arguments, wanted in ((("/nowhere",), "/nowhere/tools/pageferry is not there"),
                              ((BUILD, "--workloads", "busy"), "there is no 'busy'"),
                              ((BUILD, "--vmms", "qemu,bochs"), "there is no 'bochs'"),
                              ((BUILD, "--repeat", "0"), "at least 1"),
                              ((BUILD, "--memory", "64"), "at least 128"),
                              ((BUILD, "--engine", "--workloads", "flat"), "there is no 'flat' with --engine"),
                              ((BUILD, "--engine", "--vmms", "qemu-ring"), "there is no 'qemu-ring' with --engine"),
                              ((BUILD, "--engine", "--emulated", "6.12"), "needs no emulated host"),
                              ((BUILD, "--backing", "thp"), "--backing thp")):
        done = run("--qemu", "/bin/false", *arguments)
        check(done.returncode == 1 and done.stderr.count("\n") == 1 and wanted in done.stderr,
              f"{arguments}: {done.returncode}, {done.stderr}")


def test_a_vmm_that_does_not_start():
    done = run("--qemu", "/bin/false", "--workloads", "idle", "--memory", "128", BUILD)
    check(done.returncode == 1 and "QEMU (pid" in done.stderr and "Traceback" not in done.stderr, done.stderr)
    left = subprocess.run(["pgrep", "-f", "compare-qemu\\.[^ ]*/qmp"], capture_output=True, text=True, check=False)
    check(not left.stdout, f"left running: {left.stdout}")


def test_compares():
    done = run("--json", "--repeat", "1", "--memory", "128", "--workloads", "20k", "--vmms", "pageferry,qemu-multifd",
               "--glance-us", "1000", "--patience-s", "5", BUILD)
    check(done.returncode == 0, f"{done.returncode}: {done.stderr[-1500:]}")
    vmms = json.loads(done.stdout)["workloads"]["20k"]["vmms"]
    for name in ("pageferry", "qemu-multifd"):
        (row,) = vmms[name]
        check(row["sent"] > 100 << 20, f"{name}: all RAM was filled and is sent: {row}")
        for key in ("gbit_s", "total_s", "downtime_ms", "blackout_ms"):
            check(row[key] > 0, f"{name}: {key}: {row}")


def run_engines(backing):
    """Guests that QEMU 7.2 emulates end now and then after a hop: that says nothing of pageferry, and is told."""
    done = run("--engine", "--backing", backing, "--json", "--repeat", "1", "--memory", "128", "--workloads", "20k", BUILD)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode and done.stderr.count("boots again") >= 4 and re.search(r"QEMU \(pid \d+\) ended", last):
        print(f"SKIP: guests that QEMU emulates end again and again: {last}")
        sys.exit(77)
    return done


def test_compares_engines():
    for backing in ("memfd", "thp"):
        done = run_engines(backing)
        check(done.returncode == 0, f"{done.returncode}: {done.stderr[-1500:]}")
        vmms = json.loads(done.stdout)["workloads"]["20k"]["vmms"]
        check(set(vmms) == {"pageferry", "qemu", "qemu-multifd"}, f"{vmms}")
        for name, (row,) in vmms.items():
            check(row["sent"] > 100 << 20 and row["gbit_s"] > 0 and row["total_s"] > 0, f"{name}: {row}")


if sys.argv[1:] == ["logic"]:
    main(test_pairs_with_the_best_qemu, test_a_comparison_that_ends_early, test_a_vmm_that_ends,
         test_a_qemu_that_ends_is_booted_again, test_a_lane_that_starts_again, test_observer, test_refuses, kvm=False)
elif not shutil.which("qemu-system-x86_64"):
    print("SKIP: no qemu-system-x86_64 (Debian: qemu-system-x86)")
    sys.exit(77)
elif sys.argv[1:] == ["engine"]:
    main(test_compares_engines, kvm=False)
else:
    main(test_a_vmm_that_does_not_start, test_compares)
