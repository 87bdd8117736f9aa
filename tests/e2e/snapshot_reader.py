# SPDX-License-Identifier: MIT
"""Reads a snapshot file as docs/snapshot-format.md says, with the standard library only: an independent witness that
the page is enough.

As a program: `snapshot_reader.py FILE` verifies all of it and prints what it holds.
"""
import struct
import sys

from xxh3 import xxh3, xxh3_seeded_empty

PAGE = 4096
GRANULE = 512
ENTRY = 136
MACHINE, STATE = 1, 5


class Damaged(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Damaged(text)


class Region:
    def __init__(self, gpa, npages, offset):
        self.gpa, self.npages, self.offset = gpa, npages, offset
        self.data, self.zero, self.hashes = 0, 0, []  # page sets as numbers: bit n is page n

    @property
    def granules(self):
        return -(-self.npages // GRANULE)


class Snapshot:
    def __init__(self, path):
        self.file = open(path, "rb")  # pylint: disable=consider-using-with
        self._read_header()
        self._read_map()
        self._read_records()

    def close(self):
        self.file.close()

    def _at(self, offset, length):
        self.file.seek(offset)
        data = self.file.read(length)
        need(len(data) == length, f"the file ends within {length} bytes at {offset}")
        return data

    def _read_header(self):
        header = self._at(0, 4096)
        need(header[:8] == b"PFERSNAP", "wrong magic")
        version, flags, page, count = struct.unpack_from("<4I", header, 8)
        need((version, page) == (1, PAGE) and 1 <= count <= 8 and flags in (0, 1), "version, flags, pages or regions")
        need(struct.unpack_from("<Q", header, 4088)[0] == xxh3(header[:4088]), "the header's checksum")
        (length, self.map_at, self.map_bytes, self.map_hash, self.records_at,
         self.records_bytes) = struct.unpack_from("<6Q", header, 24)
        self.file.seek(0, 2)
        need(self.file.tell() == length == self.records_at + self.records_bytes, "the file's length")
        self.running = flags == 1
        self.regions = [Region(*struct.unpack_from("<3Q", header, 96 + 32 * i)) for i in range(count)]
        need(not any(header[72:96]) and not any(header[96 + 32 * count:4088]), "reserved bytes")
        end = 4096
        for region in self.regions:
            need(region.offset % PAGE == 0 and region.offset >= end, "a page area is out of place")
            end = region.offset + region.npages * PAGE
        need(self.map_at >= end and self.map_bytes == ENTRY * sum(region.granules for region in self.regions), "map")
        need(self.records_at >= self.map_at + self.map_bytes, "records")

    def _read_map(self):
        table = self._at(self.map_at, self.map_bytes)
        need(xxh3(table) == self.map_hash, "the map's checksum")
        at = 0
        for region in self.regions:
            for granule in range(region.granules):
                data = int.from_bytes(table[at:at + 64], "little")
                zero = int.from_bytes(table[at + 64:at + 128], "little")
                need(not data & zero, "a page that is data and zero")
                region.data |= data << (GRANULE * granule)
                region.zero |= zero << (GRANULE * granule)
                region.hashes.append(int.from_bytes(table[at + 128:at + 136], "little"))
                at += ENTRY
            need(not (region.data | region.zero) >> region.npages, "pages past the region's end")

    def _read_records(self):
        at, self.trees = self.records_at, {}
        for sequence, expected in enumerate((MACHINE, STATE)):
            header = self._at(at, 64)
            kind, flags, round_, codec = struct.unpack_from("<HHII", header, 4)
            number, meta, _, length, payload_hash, _, header_hash = struct.unpack_from("<QIIQQQQ", header, 16)
            need(header[:4] == b"PREC" and (kind, flags, round_, codec, number, meta) ==
                 (expected, 1, 0, 0, sequence, 0), f"record {sequence}")
            need(xxh3_seeded_empty(xxh3(header[:56])) == header_hash, f"the checksum of record {sequence}")
            payload = self._at(at + 64, length)
            need(xxh3(payload) == payload_hash, f"the checksum of record {sequence}'s payload")
            need(payload[:4] == b"\xd0\x0d\xfe\xed", f"record {sequence} holds no flattened device tree")
            self.trees[kind] = payload
            at += 64 + length
        need(at == self.records_at + self.records_bytes, "bytes after the records")

    def page(self, region, number):
        """Contents of a page; zeros where it is no data."""
        if region.data >> number & 1:
            return self._at(region.offset + number * PAGE, PAGE)
        return bytes(PAGE)

    def verify_granule(self, region, granule):
        bits = region.data >> (GRANULE * granule) & ((1 << GRANULE) - 1)
        contents = b"".join(self.page(region, GRANULE * granule + n) for n in range(GRANULE) if bits >> n & 1)
        need((xxh3(contents) if bits else 0) == region.hashes[granule],
             f"pages of granule {granule} of the region at {region.gpa:#x}")

    def verify_pages(self):
        for region in self.regions:
            for granule in range(region.granules):
                self.verify_granule(region, granule)

    def counts(self):
        """Pages that are data, and pages that are zero."""
        return tuple(sum(bin(getattr(region, kind)).count("1") for region in self.regions) for kind in ("data", "zero"))


if __name__ == "__main__":
    snapshot = Snapshot(sys.argv[1])
    snapshot.verify_pages()
    for one in snapshot.regions:
        print(f"region at {one.gpa:#x}: {one.npages} pages")
    print("%d data, %d zero" % snapshot.counts())
