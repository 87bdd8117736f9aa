# SPDX-License-Identifier: MIT
"""The emulated host's initramfs. Programs, their libraries, the part of Python's library that the tests import and the
tests themselves lie in it under the paths they have outside, so that a command means the same on both sides.
"""
import glob
import importlib.machinery
import lzma
import modulefinder
import os
import py_compile
import re
import subprocess
import sys
import tempfile

from linux_guest import archive

HERE = os.path.dirname(os.path.abspath(__file__))
INSIDE = os.path.join(HERE, "inside")
# Modules of Python that nothing names: getaddrinfo() looks up its codec only when it is called.
LATE_MODULES = ("encodings.idna", "encodings.utf_8", "encodings.latin_1", "encodings.ascii")
MODULES = ("irqbypass", "kvm", "kvm-amd", "veth", "sch_tbf", "sch_netem")


class Image(archive.Archive):
    """Adds programs with what they need."""

    def __init__(self):
        super().__init__("/proc", "/sys", "/dev", "/tmp", "/run", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/root")

    def program(self, source):
        """A program or shared object with all that it is linked to; a script is just a file."""
        self.file(source)
        shown = subprocess.run(["ldd", source], capture_output=True, text=True, check=False)
        for library in re.findall(r"(/\S+) \(0x", shown.stdout):
            if library not in self.entries:
                self.file(library)
                # glibc loads this by itself when a thread is cancelled.
                unwinder = os.path.join(os.path.dirname(library), "libgcc_s.so.1")
                if "/libc.so" in library and os.path.exists(unwinder):
                    self.file(unwinder)

    def python_module(self, source):
        """Compiled as well: the emulated machine is slow at that."""
        self.file(source)
        with tempfile.NamedTemporaryFile() as compiled:
            py_compile.compile(source, compiled.name, dfile=source, doraise=True,
                               invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
            name = os.path.splitext(os.path.basename(source))[0]
            self.data(os.path.join(os.path.dirname(source), "__pycache__", f"{name}.{sys.implementation.cache_tag}.pyc"),
                      compiled.read())

    def python(self, interpreter, scripts):
        """An interpreter and the modules that the scripts import, found by reading them."""
        self.program(interpreter)
        if os.path.realpath(interpreter) != interpreter:
            self.program(os.path.realpath(interpreter))
        finder = modulefinder.ModuleFinder(path=[*{os.path.dirname(script) for script in scripts}, *sys.path[1:]])
        for script in scripts:
            finder.run_script(script)
        for name in LATE_MODULES:
            finder.import_hook(name)
        library = os.path.dirname(os.__file__)
        files = {module.__file__ for module in finder.modules.values() if module.__file__}
        files.update(glob.glob(f"{library}/encodings/*.py"), glob.glob(f"{library}/site.py"))
        for file in sorted(files):
            if file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
                self.program(file)
            else:
                self.python_module(file)
        # The interpreter looks for these two names to find its library.
        self.file(f"{library}/os.py")
        self.directory(f"{library}/lib-dynload")

    def kernel_modules(self, directory):
        for name in MODULES:
            found = glob.glob(f"{directory}/kernel/**/{name}.ko*", recursive=True)
            if not found:
                raise FileNotFoundError(f"no module {name} in {directory}")
            with (lzma.open if found[0].endswith(".xz") else open)(found[0], "rb") as file:
                self.data(f"/modules/{name}.ko", file.read())


def base(busybox):
    """What every use of the emulated host starts from: busybox and init."""
    image = Image()
    image.file(busybox, "/bin/busybox")
    image.data("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    for name in os.listdir(INSIDE):
        image.file(os.path.join(INSIDE, name), f"/inside/{name}")
    image.file(os.path.join(INSIDE, "init"), "/init")
    return image
