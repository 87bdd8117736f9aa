/* SPDX-License-Identifier: MIT */
#include "tools/bench_warm.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench_child.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Not to the last page, which would push others' memory out. */
static uint64_t at_most(void)
{
    struct sysinfo info;

    return sysinfo(&info) ? 0 : (uint64_t)info.freeram * info.mem_unit / 8 * 7;
}

void bench_warm(uint64_t bytes)
{
    pid_t parent = getpid(), child = fork();

    if (child == 0) {
        uint64_t free_bytes = at_most(), warmed = bytes < free_bytes ? bytes : free_bytes;
        void *memory = mmap(NULL, warmed, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        bench_die_with(parent);
        if (memory != MAP_FAILED && !madvise(memory, warmed, MADV_HUGEPAGE))
            (void)madvise(memory, warmed, MADV_POPULATE_WRITE);
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}
