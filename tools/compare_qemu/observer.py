# SPDX-License-Identifier: MIT
"""Watches a guest from outside: maps guest RAM of both processes and reads the counters that the guest keeps on its
statistics page (guest/abi.h).
"""
import mmap
import os
import time

STATS_GPA, STATS_MAGIC = 0x100000, 0x3153544154534650
FIRST_CPU, CPU_WORDS, MAX_CPUS = 8, 8, 16  # in 64-bit words: cpu[] of struct guest_stats
HEARTBEAT, WORK = 0, 1


def guest_ram(pid):
    """Path to the process's guest RAM: the largest of its shared memory files, or None."""
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            try:
                if os.readlink(path).startswith("/memfd:"):
                    found.append((os.stat(path).st_size, path))
            except OSError:
                pass
    except OSError:
        return None
    return max(found)[1] if found and max(found)[0] > STATS_GPA else None


class View:
    """One process's side of the guest."""

    def __init__(self, pid):
        self.pid, self.words = pid, None
        self.beats = self.work = 0
        self.changed = 0.0

    def look(self, now):
        if self.words is None:
            path = guest_ram(self.pid)
            if not path:
                return
            with open(path, "rb") as file:
                # The mapping outlives the process, so that the last word of a source that ended is seen.
                mapping = mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ, offset=STATS_GPA)
            self.words = memoryview(mapping).cast("Q")
        words = self.words
        if words[0] != STATS_MAGIC:
            return
        cpus = range(FIRST_CPU, FIRST_CPU + CPU_WORDS * min(words[2], MAX_CPUS), CPU_WORDS)
        beats = sum(words[cpu + HEARTBEAT] for cpu in cpus)
        if beats != self.beats:
            self.beats, self.changed = beats, now
            self.work = sum(words[cpu + WORK] for cpu in cpus)


class Observer:
    """A guest on its way from one process to another. The destination counts once it is beyond the source."""

    def __init__(self, glance_s, source, target=None):
        self.glance_s, self.source, self.target = glance_s, source, target
        self.arrived = 0.0  # when the first beat was seen at the destination

    def glance(self):
        """One look, after a moment; the time of it."""
        time.sleep(self.glance_s)
        now = time.monotonic()
        self.source.look(now)
        if self.target:
            self.target.look(now)
            if not self.arrived and self.target.beats > self.source.beats:
                self.arrived = self.target.changed
        return now

    def work(self):
        return max(self.source.work, self.target.work if self.target else 0)

    def blackout(self):
        return self.arrived - self.source.changed
