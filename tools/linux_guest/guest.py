# SPDX-License-Identifier: MIT
"""The files of a Linux guest: an initramfs of busybox and our workload, and Debian's kernels."""
import os

from linux_guest import archive, debian, vmlinux

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def cache(build):
    """Where downloads are kept; the emulated host of the tests looks there too."""
    return os.path.join(build, "emulated-host", "cache")


def _complete(path, write):
    """Makes a file that is there as a whole or not at all; others may be making it too."""
    part = f"{path}.{os.getpid()}"
    try:
        write(part)
        os.rename(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def make_initramfs(build, path):
    workload = os.path.join(build, "guest", "linux", "linux-workload")
    if not os.path.exists(workload):
        raise debian.Unavailable(f"{workload} is not there: build everything in {build} first")
    made = archive.Archive("/proc", "/sys", "/dev", "/tmp", "/bin", "/modules")
    made.file(debian.busybox(cache(build)), "/bin/busybox")
    made.file(workload, "/bin/linux-workload")
    made.file(os.path.join(TOP, "guest", "linux", "init"), "/init")
    _complete(path, made.write)


def make_kernel(build, name, path, unpacked=False):
    """Debian's kernel of that version, as a bzImage or unpacked."""
    source = debian.kernel(cache(build), name)[0]

    def write(part):
        with open(source, "rb") as bzimage, open(part, "wb") as file:
            file.write(vmlinux.unpack(bzimage.read()) if unpacked else bzimage.read())

    _complete(path, write)
