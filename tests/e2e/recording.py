# SPDX-License-Identifier: MIT
"""A reader of recorded dirty bitmaps that shares nothing with the writer but docs/dirty-recording.md. Unpacks with the
zstd command.
"""
import struct
import subprocess


class BadRecording(OSError):
    """Not a recording, or not a sound one."""


def _check(condition, text):
    if not condition:
        raise BadRecording(text)


def _contents(file):
    with open(file, "rb") as stream:
        head, frame = stream.read(16), stream.read()
    _check(head == b"PFDIRTY\n" + struct.pack("<II", 1, 4096), f"header {head}")
    done = subprocess.run(["zstd", "-dc"], input=frame, capture_output=True, check=False)
    _check(done.returncode == 0, f"zstd: {done.stderr}")
    return done.stdout


def read(file):
    """(regions as (gpa, npages), per round a list of bitmaps by region, each one whole number of its bits)"""
    data = _contents(file)
    nregions, zero = struct.unpack_from("<II", data)
    _check(zero == 0, "a word that must be zero is not")
    at = 8
    regions = []
    for _ in range(nregions):
        regions.append(struct.unpack_from("<QQ", data, at))
        at += 16
    rounds, total = [], 0
    while True:
        first, second, pages = struct.unpack_from("<IIQ", data, at)
        at += 16
        if first == 0xffffffff:
            break
        if second == 0:
            rounds.append([])
        _check((first, second) == (len(rounds) - 1, len(rounds[-1])), f"round {first} region {second} out of order")
        size = (regions[second][1] + 63) // 64 * 8
        bits = int.from_bytes(data[at:at + size], "little")
        _check(bits >> regions[second][1] == 0, "pages behind the region's end")
        _check(bits.bit_count() == pages, f"{bits.bit_count()} pages, said {pages}")
        rounds[-1].append(bits)
        total += pages
        at += size
    _check((second, pages) == (len(rounds), total), f"the end says {second}, {pages}; there are {len(rounds)}, {total}")
    _check(at == len(data), f"{len(data) - at} bytes behind the end")
    return regions, rounds


def count_runs(bits):
    """Runs of set bits."""
    return (bits & ~(bits << 1)).bit_count()
