# SPDX-License-Identifier: MIT
"""Lanes of a comparison: each is a VMM whose guest makes a hop when its turn comes."""
import json
import os
import subprocess
import tempfile
import time

from compare_qemu.observer import Observer, View
from compare_qemu.qmp import Ended, Failure
from compare_qemu.vmms import KINDS
from compare_qemu.warm import warm

BOOT_S, MOVE_S, CALM_S = 900, 900, 1.0
RESTARTS = 4  # of an emulated guest, with one workload: it may find stale pages after a hop, and end
LOOK_S = 0.005  # from one question to the next, where nobody watches the guest


class Lane:
    """A VMM and its guest, which hops."""

    def __init__(self, name, setup, scratch):
        self.name, self.scratch, self.processes = name, tempfile.mkdtemp(dir=scratch), setup.processes
        self.vmm = KINDS[name](setup)
        self.memory, self.patience, self.glance_s = setup.memory, setup.patience_s, setup.glance_us * 1e-6
        self.restarts, self.process, self.target = 0, None, None
        self._boot()

    def _boot(self):
        self.process = self.vmm.boot(self._directory())
        self.view = View(self.process.popen.pid)

    def may_restart(self):
        """Whether the comparison goes on after one of its VMMs ended. Not where KVM runs the guest."""
        return False

    def _directory(self):
        return tempfile.mkdtemp(dir=self.scratch)

    def settle(self):
        """The guest has begun its work; it stands still until its turn."""
        end = time.monotonic() + BOOT_S
        while not self._has_begun():
            if self.process.ended():
                raise Ended(self.process)
            if time.monotonic() > end:
                raise Failure(f"the guest in {self.process} does not begin its workload")
        self.process.qmp.command("stop")

    def _has_begun(self):
        """One look."""
        Observer(self.glance_s, self.view).glance()
        return self.view.work

    def hop(self):
        """One migration; its figures."""
        self.target, address = self.vmm.listen(self._directory())
        self.process.qmp.command("cont")
        self.vmm.prepare(self.process)
        figures = self._measure(self.target, address)
        self.process.end()
        self.process, self.target = self.target, None
        self.process.qmp.command("stop")
        return figures

    def _status(self, status, begin):
        """What became of a migration that was `status` before."""
        for event in self.process.qmp.poll_events():
            if event["event"] == "MIGRATION":
                status = event["data"]["status"]
        if status == "failed" and self.target.ended():
            raise Ended(self.target)
        if status in ("failed", "cancelled") or time.monotonic() - begin > MOVE_S:
            raise Failure(f"{self.process}: the migration ended {status}: "
                          f"{self.process.qmp.command('query-migrate').get('error-desc', self.process.last_words())}")
        return status

    def _measure(self, target, address):
        observer = Observer(self.glance_s, self.view, View(target.popen.pid))
        begin = now = observer.glance()
        work = observer.work()
        while now - begin < CALM_S:
            now = observer.glance()
        rate = (observer.work() - work) / (now - begin)
        warm(self.memory)
        now = observer.glance()
        self.process.qmp.poll_events()  # those of its arrival
        begin, work = now, observer.work()
        self.process.qmp.command("migrate", uri=address)
        status, lifted = "", False
        while not (status == "completed" and observer.arrived):
            now = observer.glance()
            status = self._status(status, begin)
            if not lifted and now - begin > self.patience:
                self.vmm.lift_limit(self.process)
                lifted = True
        figures = self.vmm.figures(self.process.qmp.command("query-migrate"))
        lost = rate * (now - begin) - (observer.work() - work)
        figures.update(gbit_s=figures["sent"] * 8e-9 / figures["total_s"], blackout_ms=observer.blackout() * 1e3,
                       lost_ms=max(lost, 0) / rate * 1e3 if rate else 0, lifted=lifted)
        self.view = observer.target
        return figures


class EmulatedLane(Lane):
    """A QEMU that emulates its guest: what migrates is the same, and runs at this host's speed. Nobody watches."""

    def may_restart(self):
        return self.restarts < RESTARTS

    def restart(self):
        """After one of its VMMs ended: a fresh guest."""
        self.restarts += 1
        for process in self.processes:
            if os.path.dirname(process.directory) == self.scratch:
                process.end()
        self.process = self.target = None
        self._boot()
        self.settle()

    def _has_begun(self):
        time.sleep(LOOK_S)
        return "ready" in self.process.guest_said().split()

    def _measure(self, target, address):
        time.sleep(CALM_S)
        warm(self.memory)
        self.process.qmp.poll_events()  # those of its arrival
        begin, status, lifted = time.monotonic(), "", False
        self.process.qmp.command("migrate", uri=address)
        while status != "completed":
            time.sleep(LOOK_S)
            status = self._status(status, begin)
            if not lifted and time.monotonic() - begin > self.patience:
                self.vmm.lift_limit(self.process)
                lifted = True
        figures = self.vmm.figures(self.process.qmp.command("query-migrate"))
        figures.update(gbit_s=figures["sent"] * 8e-9 / figures["total_s"], lifted=lifted)
        return figures


class EngineLane:
    """pageferry's engine and RAM without a guest, in two processes, which a bench starts for each hop."""

    restarts = 0

    def may_restart(self):
        """Its failure ends the comparison."""
        return False

    def __init__(self, name, setup, _scratch):
        self.name, limit = name, f"{setup.downtime_limit_ms}ms"
        self.command = [setup.pageferry, "bench", "migrate", "--engine", "--once", "--json", "-m", str(setup.memory),
                        "--backing", setup.backing, "--streams", str(KINDS[name](setup).streams), "--downtime-limit", limit,
                        "--max-bandwidth", str(setup.max_bandwidth), *setup.writer]

    def settle(self):
        """There is nothing to wait for."""

    def hop(self):
        try:
            done = subprocess.run(self.command, capture_output=True, text=True, check=False, timeout=MOVE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"pageferry: the migration does not end within {MOVE_S} s") from None
        if done.returncode:
            raise Failure(f"pageferry: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
        (row,) = json.loads(done.stdout)["migrations"]
        return {"total_s": row["total_ns"] / 1e9, "downtime_ms": row["downtime_ns"] / 1e6, "sent": row["bytes_sent"],
                "rounds": row["rounds"], "gbit_s": row["bytes_per_s"] * 8e-9, "lifted": False}


def lane(name, setup, scratch):
    if not setup.engine:
        return Lane(name, setup, scratch)
    return (EmulatedLane if name.startswith("qemu") else EngineLane)(name, setup, scratch)
