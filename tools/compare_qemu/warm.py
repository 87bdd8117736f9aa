# SPDX-License-Identifier: MIT
"""Free memory in the same state before every hop, as tools/bench_warm.h tells why."""
import mmap
import os

POPULATE_WRITE = 23  # MADV_POPULATE_WRITE


def warm(size):
    """Touches so much of the free memory, in a process of its own."""
    child = os.fork()
    if not child:
        try:
            free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE // 8 * 7
            memory = mmap.mmap(-1, max(min(size, free), mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            memory.madvise(mmap.MADV_HUGEPAGE)
            memory.madvise(POPULATE_WRITE)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
