# SPDX-License-Identifier: MIT
"""The first minute with pageferry: `run` without arguments says hello and exits 0; the same ELF says the same under
QEMU microvm. Usage: test_hello.py ELF
"""
import shutil
import subprocess
import sys

from harness import BINARY, check, main

QEMU = "qemu-system-x86_64"


def first_line(output):
    lines = output.decode(errors="replace").strip().splitlines()
    check(lines, "nothing was printed")
    return lines[0].strip()


def test_hello():
    for arguments in ([], [sys.argv[1]]):
        done = subprocess.run([BINARY, "run", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=60, check=False)
        check(done.returncode == 0, f"exit {done.returncode}: {done.stderr.decode()}")
        check(not done.stderr, f"a word too much: {done.stderr.decode()}")
        check("hello" in first_line(done.stdout), f"no hello: {done.stdout}")
    if not shutil.which(QEMU):
        print(f"not compared: {QEMU} is not installed")
        return
    qemu = subprocess.run([QEMU, "-M", "microvm", "-accel", "kvm", "-cpu", "host", "-m", "64M", "-nodefaults",
                           "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot", "-device",
                           "isa-debug-exit,iobase=0xf4,iosize=4", "-kernel", sys.argv[1]],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    check(qemu.returncode == 1, f"QEMU exit {qemu.returncode}: {qemu.stderr.decode()}")
    check(first_line(qemu.stdout) == first_line(done.stdout), f"QEMU: {qemu.stdout}, here: {done.stdout}")


if __name__ == "__main__":
    main(test_hello)
