# SPDX-License-Identifier: MIT
"""An initramfs: files by path, written as the kernel unpacks them."""
import os
import stat


class Archive:
    """One cpio archive of the format "newc"; directories come by themselves."""

    def __init__(self, *directories):
        self.entries = {}
        for name in directories:
            self.directory(name)

    def directory(self, path):
        if path != "/" and path not in self.entries:
            self.directory(os.path.dirname(path))
            self.entries[path] = (stat.S_IFDIR | 0o755, b"")

    def data(self, path, content, mode=0o644):
        path = os.path.abspath(path)
        self.directory(os.path.dirname(path))
        self.entries[path] = (stat.S_IFREG | mode, content)

    def file(self, source, path=None):
        with open(source, "rb") as file:
            self.data(path or source, file.read(), 0o755 if os.access(source, os.X_OK) else 0o644)

    def write(self, path):
        with open(path, "wb") as file:
            for number, (name, (mode, content)) in enumerate([*self.entries.items(), ("TRAILER!!!", (0, b""))], 1):
                name = name.lstrip("/").encode() + b"\0"
                fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
                header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
                file.write(header + bytes(-len(header) % 4) + content + bytes(-len(content) % 4))
