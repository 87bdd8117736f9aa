# SPDX-License-Identifier: MIT
"""The kernel proper out of a bzImage: an ELF file with a PVH note, which boots without unpacking itself."""
import gzip
import lzma
import struct
import subprocess

from linux_guest.debian import Unavailable

# Linux Documentation/arch/x86/boot.rst: setup_sects, payload_offset and payload_length.
SETUP_SECTS, PAYLOAD = 0x1f1, 0x248
SECTOR = 512


def _filter(*command):
    def run(data):
        try:
            # Behind the compressed data stands its length, which these call trailing garbage.
            done = subprocess.run(command, input=data, capture_output=True, check=False)
        except FileNotFoundError:
            raise Unavailable(f"to unpack this kernel, install Debian's package {command[0]}") from None
        return done.stdout
    return run


# What a kernel may be compressed with, by its first bytes.
FORMATS = (
    (b"\x1f\x8b", lambda data: gzip.decompress(data[:-4])),
    (b"\xfd7zXZ", lambda data: lzma.LZMADecompressor().decompress(data)),
    (b"\x28\xb5\x2f\xfd", _filter("zstd", "-dcq")),
    (b"\x02\x21\x4c\x18", _filter("lz4", "-dcq")),
)


def unpack(bzimage):
    """The bytes of the vmlinux in those of a bzImage."""
    offset, length = struct.unpack_from("<II", bzimage, PAYLOAD)
    start = (bzimage[SETUP_SECTS] + 1) * SECTOR + offset
    payload = bzimage[start:start + length]
    for magic, decompress in FORMATS:
        if payload.startswith(magic):
            vmlinux = decompress(payload)
            size, = struct.unpack_from("<I", payload, len(payload) - 4)
            if len(vmlinux) != size or vmlinux[:4] != b"\x7fELF":
                raise Unavailable("this kernel does not unpack to what it says")
            return vmlinux
    raise Unavailable(f"this kernel is compressed in an unknown way ({payload[:4].hex()})")
