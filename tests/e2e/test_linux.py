# SPDX-License-Identifier: MIT
"""A Linux guest, Debian's kernel with a workload that checks memory, clocks, timers and console (tools/linux-guest): it
boots, is migrated from its first instruction on, many times while it works, and ends while it is copied.
PAGEFERRY_LINUX_GUEST names the directory that tools/linux-guest filled.
"""
import os
import platform
import re
import subprocess
import sys
import time

from harness import BINARY, EFFORT, Control, Process, check, main, migrate_well, path, times, wait_until

DIRECTORY = os.environ.get("PAGEFERRY_LINUX_GUEST", "linux-guest")
INITRAMFS = os.path.join(DIRECTORY, "initramfs.cpio")
BOOT_S = 240
QUIET = "console=ttyS0 quiet loglevel=1 panic=-1"
# Emulated CPUs have little time beside the migration itself.
PACE = "set=8M rate=200 sleepers=4 ticks=20" if EFFORT < 100 else "rate=2000 sleepers=16 ticks=50"
# How far the guest's wall clock may be from ours, when a busy host reads it late.
WALL_S = 5
# What the console may say. The kernel's farewell comes with a carriage return, as its messages do.
LINES = r"ready .*|echo .*|linux: OK .*|\[ *[\d.]+\] reboot: .*"
TICK = r"tick (\d{6}) (\d+) abcdefghijklmnopqrstuvwxyz"


def kernel(kind):
    """The kernel of this host's version where there is one, else any."""
    names = sorted(name for name in os.listdir(DIRECTORY) if name.startswith(kind))
    release = ".".join(platform.release().split(".")[:2])
    if f"{kind}-{release}" in names:
        names = [f"{kind}-{release}"]
    if not names or not os.path.exists(INITRAMFS):
        print(f"SKIP: no {kind} in {DIRECTORY}: tools/linux-guest makes one")
        sys.exit(77)
    return os.path.join(DIRECTORY, names[0])


class Guest:
    """A guest on its way from process to process. They share one input; `said` is what it printed in all of them."""

    def __init__(self, image, append="", cpus=2, memory="512M"):
        self.input, self.typing = os.pipe()
        self.hops, self.downtimes, self.behind = 0, [], b""
        self.control = path("linux.sock")
        self.process = Process("run", "-m", memory, "-c", str(cpus), "--initrd", INITRAMFS, "--control", self.control,
                               "--append", f"{QUIET} {PACE} {append}", image, stdin=self.input)

    def receive(self):
        self.hops += 1
        control = path(f"linux{self.hops}.sock")
        there = Process("receive", "--listen", "tcp:127.0.0.1:0", "--control", control, stdin=self.input)
        return there, control, there.wait_error(r"listening on (\S+)").group(1)

    def hop(self, *ways):
        there, control, uri = self.receive()
        self.downtimes.append(migrate_well(self.control, uri, *ways, seconds=BOOT_S)["downtime_ns"])
        print(f"hop {len(self.downtimes)}: {self.downtimes[-1] / 1e6:.2f} ms", flush=True)
        old = Control(self.control)
        old.command("quit")
        self.process.expect_exit(0)
        self.behind += bytes(self.process.out)
        self.process, self.control = there, control

    def said(self):
        return (self.behind + bytes(self.process.out)).decode(errors="replace")

    def type(self, text):
        os.write(self.typing, text.encode())

    def wait_for(self, pattern, seconds=BOOT_S, since=0):
        def there():
            found = re.search(pattern, self.said()[since:])
            check(found or self.process.alive(), f"{self.process} ended before its guest said {pattern!r}")
            return found
        return wait_until(there, f"{pattern!r} from the guest", seconds)

    def end(self, command, how):
        """Ends the guest while it is copied: the migration fails with the reason, the source ends as if there had been
        none, the destination is gone. Returns the lines that the guest printed.
        """
        there, _, uri = self.receive()
        migration = subprocess.Popen([BINARY, "migrate", "--control", self.control, "--max-bandwidth", "4M", uri],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        status = Control(self.control)
        wait_until(lambda: status.command("query-migrate").get("status") == "active", "the migration to begin")
        self.type(f"{command}\n")
        self.process.expect_exit(0, BOOT_S)
        said, errors = self.said(), self.process.err.decode()
        check(how in errors, f"the guest did not end as it was asked to: {errors}")
        check("linux: OK" in said, f"no verdict: {said[-1000:]}")
        check("kernel: " not in said, f"the kernel complains: {said[-2000:]}")
        out, err = migration.communicate(timeout=60)
        check(migration.returncode == 1 and how in out + err, f"migrate: {migration.returncode} {out} {err}")
        check(there.wait() == 1, f"the destination ended with {there.wait()}")
        return said[said.index("ready "):].replace("\r", "").splitlines()


def check_console(lines):
    """Every line is whole, and every tick is there once, in order. Returns what was echoed."""
    for line in lines:
        check(re.fullmatch(f"{TICK}|{LINES}", line), f"not a whole line: {line!r}")
    ticks = [int(line.split()[1]) for line in lines if line.startswith("tick ")]
    check(ticks == list(range(len(ticks))), f"ticks lost or doubled: {ticks}")
    return [line.split()[1] for line in lines if line.startswith("echo ")]


def check_wall_clock(guest):
    """The time in the guest's next line against ours."""
    since = len(guest.said())
    tick = guest.wait_for(f"{TICK}\n", since=since)
    off = time.time() - int(tick.group(2)) / 1e9
    check(abs(off) < WALL_S, f"the guest's clock is off by {off:.1f} s")


def test_early_hops():
    """From the first instruction on, through all of the boot; then a reset."""
    guest = Guest(kernel("vmlinuz"))
    while "ready " not in guest.said():
        guest.hop()
        check(guest.hops < 200, "it never comes up")
    check(guest.hops > 1, "it was up before it could be moved")
    print(f"{guest.hops} hops while it booted")
    check_console(guest.end("reboot", "asked port 0xcf9 for a reset"))


def test_hops():
    """Booted by PVH, moved often, with input that arrives meanwhile; then power off."""
    guest = Guest(kernel("vmlinux"))
    guest.wait_for("ready cpus=2")
    check_wall_clock(guest)
    typed = []
    for number in range(times(100)):
        words = [f"{number}-{letter}" for letter in "abcdefgh"]
        guest.type("".join(f"{word}\n" for word in words))
        typed += words
        guest.hop(*(["--streams", "2"] if number % 4 == 3 else []))
    check_wall_clock(guest)
    lines = guest.end("q", "powered itself off")
    check(check_console(lines) == typed, f"typed {typed}, echoed {check_console(lines)}")
    guest.downtimes.sort()
    print(f"{lines[-2]}; {len(guest.downtimes)} hops, downtime median "
          f"{guest.downtimes[len(guest.downtimes) // 2] / 1e6:.2f} ms, max {guest.downtimes[-1] / 1e6:.2f} ms")


if __name__ == "__main__":
    main(test_early_hops, test_hops)
