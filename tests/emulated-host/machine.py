# SPDX-License-Identifier: MIT
"""Boots one emulated host: QEMU without KVM, a CPU with SVM, an initramfs of ours."""
import json
import os
import shutil
import subprocess

from linux_guest import debian

QEMU = "qemu-system-x86_64"
# The first for a guest with RAM on both sides of the gap below 4 GiB. What is not used is not there, but a host gives no
# process more than it has.
MEMORY_GIB = (7, 3, 1)
# One thread of QEMU for both CPUs computes less in all than two that must agree, and what emulated CPUs get wrong when
# they really run at once cannot happen; several hosts side by side use the other cores.
THREADS = os.environ.get("PAGEFERRY_EMULATED_THREADS", "single")
# What costs an emulated CPU much and does not concern KVM's code: mitigations, pages cleared twice, a watch on the TSC.
FASTER = "mitigations=off init_on_alloc=0 tsc=reliable"


def memory():
    if "PAGEFERRY_EMULATED_MEMORY" in os.environ:
        return os.environ["PAGEFERRY_EMULATED_MEMORY"]
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{next((gib for gib in MEMORY_GIB if gib << 30 < total), MEMORY_GIB[-1])}G"


def boot(cache, directory, variant, image, console=None):
    """Starts QEMU as a plan.Variant says, with the finished image; the console goes to the file `console`, or is this terminal. Returns
    (process, path of the records that come out of the second serial port).
    """
    if not shutil.which(QEMU):
        raise debian.Unavailable(f"the emulated host needs {QEMU}: install Debian's qemu-system-x86")
    vmlinuz, modules = debian.kernel(cache, variant.kernel)
    image.kernel_modules(modules)
    image.data("/inside/kvm-amd-options", variant.kvm_amd.encode())
    initramfs = os.path.join(directory, "initramfs.cpio")
    image.write(initramfs)
    records = os.path.join(directory, "records")
    open(records, "w", encoding="ascii").close()
    first = f"file,id=console,path={console}" if console else "stdio,id=console,signal=on"
    command = [QEMU, "-accel", f"tcg,thread={THREADS}", "-cpu", variant.cpu, "-smp", str(variant.cpus), "-m", memory(),
               "-nodefaults", "-no-user-config", "-display", "none", "-net", "none", "-no-reboot", "-chardev", first,
               "-serial", "chardev:console", "-serial", f"file:{records}", "-kernel", vmlinuz, "-initrd", initramfs,
               "-append", f"console=ttyS0 panic=-1 oops=panic quiet loglevel={5 if console else 1} "
               f"random.trust_cpu=on {FASTER}"]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL if console else None), records


class Records:
    """Reads the JSON lines that the host has finished."""

    def __init__(self, path):
        self.file = open(path, "rb")
        self.rest = b""

    def new(self):
        self.rest += self.file.read()
        *lines, self.rest = self.rest.split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]
