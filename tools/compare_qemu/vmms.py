# SPDX-License-Identifier: MIT
"""The VMMs that are compared: how each is started, made to listen and told to migrate.

All boot the same guest ELF on one 4 KiB shared memfd, which the observer maps, and move it over TCP loopback.
"""
import os
import re
import signal
import subprocess
import time

from compare_qemu.qmp import Failure, Qmp

PATIENCE_S = 300
END_S = 5
UNLIMITED = 1 << 40  # bytes a second: QEMU has no word for "no limit" of its own that all versions understand
NO_LIMIT_MS = 2000000


class Process:
    """One VMM with one guest, or waiting for one."""

    def __init__(self, setup, name, command, directory):
        self.name, self.qmp, self.directory = name, None, directory
        self.errors, self.serial = os.path.join(directory, "err"), os.path.join(directory, "serial")
        with open(self.errors, "wb") as errors:
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                          process_group=0)
        setup.processes.append(self)  # all of which end with the comparison, however it ends
        self.qmp = Qmp(os.path.join(directory, "qmp"), self, PATIENCE_S)

    def said(self):
        with open(self.errors, errors="replace", encoding="utf-8") as file:
            return file.read()

    def guest_said(self):
        """Where the guest's serial line goes to a file; else nothing."""
        if not os.path.exists(self.serial):
            return ""
        with open(self.serial, errors="replace", encoding="utf-8") as file:
            return file.read()

    def last_words(self):
        """What ended its guest, or its own."""
        guest = [line for line in self.guest_said().splitlines() if line.startswith("exception")]
        return (guest or self.said().strip().splitlines() or ["it said nothing"])[-1]

    def ended(self):
        return self.popen.poll() is not None

    def how(self):
        """By what it ended, where that is known already or in a moment."""
        try:
            code = self.popen.wait(END_S)
        except subprocess.TimeoutExpired:
            return ""
        return f" by {signal.Signals(-code).name}" if code < 0 else f" with {code}"

    def end(self):
        if self.qmp:
            self.qmp.close()
        if not self.ended():
            self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()

    def __str__(self):
        return f"{self.name} (pid {self.popen.pid})"


class Pageferry:
    def __init__(self, setup, streams=1, ring=False):
        self.setup, self.streams = setup, streams
        self.backing = ["--backing", "memfd", "--dirty-log", "ring" if ring else "bitmap", "--serial", "null"]

    def boot(self, directory):
        setup = self.setup
        return Process(setup, "pageferry", [setup.pageferry, "run", "-m", str(setup.memory), "--append", setup.workload,
                                            "--control", f"{directory}/qmp", *self.backing, setup.guest], directory)

    def listen(self, directory):
        """The process and where it listens."""
        process = Process(self.setup, "pageferry", [self.setup.pageferry, "receive", "--listen", "tcp:127.0.0.1:0",
                                                    "--control", f"{directory}/qmp", *self.backing], directory)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and not process.ended():
            found = re.search(r"listening on (\S+)", process.said())
            if found:
                return process, found[1]
            time.sleep(0.01)
        raise Failure(f"{process} does not listen: {process.last_words()}")

    def prepare(self, process):
        """Sets what the migration is to keep to."""
        process.qmp.command("migrate-set-parameters", downtime_limit=self.setup.downtime_limit_ms,
                            max_bandwidth=self.setup.max_bandwidth, multifd_channels=self.streams,
                            x_timeout_ms=self.setup.patience_s * 1000, x_on_timeout="switch")

    def lift_limit(self, _process):
        """It switches by itself at the timeout that prepare() set."""

    @staticmethod
    def figures(answer):
        own = answer["x-pageferry"]
        return {"total_s": own["total_ns"] / 1e9, "downtime_ms": own["downtime_ns"] / 1e6, "sent": own["bytes_sent"],
                "rounds": len(own["rounds"])}


class Qemu:
    def __init__(self, setup, channels=0, ring=False):
        self.setup, self.channels = setup, channels
        kvm = "kvm,dirty-ring-size=4096" if ring else "kvm"
        self.accelerator, self.cpu = ("tcg", "max") if setup.engine else (kvm, "host")

    def _command(self, directory):
        memory = str(self.setup.memory)
        ram = "memfd,share=on" if self.setup.backing == "memfd" else "ram"  # QEMU asks for huge pages by itself
        serial = f"file:{directory}/serial" if self.setup.engine else "null"
        return [self.setup.qemu, "-M", "microvm,memory-backend=ram", "-accel", self.accelerator, "-cpu", self.cpu, "-m",
                f"size={memory}B", "-object", f"memory-backend-{ram},id=ram,size={memory}B", "-nodefaults",
                "-no-user-config", "-display", "none", "-serial", serial, "-no-reboot", "-device",
                "isa-debug-exit,iobase=0xf4,iosize=4", "-qmp", f"unix:{directory}/qmp,server=on,wait=off", "-kernel",
                self.setup.guest, "-append", self.setup.workload]

    def _capabilities(self, process):
        on = ["events"] + (["multifd"] if self.channels else [])
        process.qmp.command("migrate-set-capabilities", capabilities=[{"capability": name, "state": True} for name in on])
        if self.channels:
            process.qmp.command("migrate-set-parameters", multifd_channels=self.channels)

    def boot(self, directory):
        return Process(self.setup, "QEMU", self._command(directory), directory)

    def listen(self, directory):
        process = Process(self.setup, "QEMU", [*self._command(directory), "-incoming", "defer"], directory)
        self._capabilities(process)
        process.qmp.command("migrate-incoming", uri="tcp:127.0.0.1:0")
        address = process.qmp.command("query-migrate")["socket-address"][0]
        return process, f"tcp:{address['host']}:{address['port']}"

    def prepare(self, process):
        self._capabilities(process)
        process.qmp.command("migrate-set-parameters", downtime_limit=self.setup.downtime_limit_ms,
                            max_bandwidth=self.setup.max_bandwidth or UNLIMITED)

    def lift_limit(self, process):
        process.qmp.command("migrate-set-parameters", downtime_limit=NO_LIMIT_MS)

    @staticmethod
    def figures(answer):
        ram = answer["ram"]
        return {"total_s": answer["total-time"] / 1e3, "downtime_ms": float(answer["downtime"]),
                "sent": ram["transferred"], "rounds": ram["dirty-sync-count"]}


KINDS = {
    "pageferry": lambda setup: Pageferry(setup),
    "pageferry-streams": lambda setup: Pageferry(setup, streams=2),
    "pageferry-ring": lambda setup: Pageferry(setup, ring=True),
    "qemu": lambda setup: Qemu(setup),
    "qemu-multifd": lambda setup: Qemu(setup, channels=2),
    "qemu-ring": lambda setup: Qemu(setup, ring=True),
}
