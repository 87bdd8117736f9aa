/* SPDX-License-Identifier: MIT
 *
 * Pages whose every word follows from page number and generation; the generations are kept
 * elsewhere. A page is verified before it is written again, and all are at the end: a page that a
 * migration lost shows an older generation. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "guest/abi.h"
#include "guest/linux/workload.h"

#define PAGE_WORDS 512u
#define PAGE_BYTES (PAGE_WORDS * sizeof(uint64_t))
#define MAX_CPUS   64u
/* Behind by more than this, a thread starts its pace afresh. */
#define MAX_BEHIND_NS (20 * NS_PER_MS)

struct share {
    pthread_t thread;
    unsigned cpu;
    uint64_t first, npages, visits;
    uint64_t period_ns; /* 0: no pace */
};

static struct {
    uint64_t *words;
    uint32_t *generation;
    uint64_t npages;
    unsigned nshares;
    struct share share[MAX_CPUS];
} memory;

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ value >> 27) * 0x94d049bb133111ebull;
    return value ^ value >> 31;
}

static uint64_t content(uint64_t page, uint32_t generation, unsigned word)
{
    return mix(page << 32 | generation) + word * 0x9e3779b97f4a7c15ull;
}

static void verify(uint64_t page)
{
    const uint64_t *words = memory.words + page * PAGE_WORDS;
    uint32_t generation = memory.generation[page];

    for (unsigned i = 0; i < PAGE_WORDS; i++) {
        if (words[i] != content(page, generation, i))
            fault(GUEST_EXIT_MEMORY, "page %llu word %u is %016llx, not generation %u's",
                  (unsigned long long)page, i, (unsigned long long)words[i], generation);
    }
}

static void renew(uint64_t page)
{
    uint64_t *words = memory.words + page * PAGE_WORDS;
    uint32_t generation = ++memory.generation[page];

    for (unsigned i = 0; i < PAGE_WORDS; i++)
        words[i] = content(page, generation, i);
}

static void *check(void *opaque)
{
    struct share *share = opaque;
    uint64_t random = share->cpu + 1;
    uint64_t due = now_ns(CLOCK_MONOTONIC);

    stay_on(share->cpu);
    while (!atomic_load(&finishing)) {
        uint64_t page = share->first + (random = mix(random + 1)) % share->npages;

        verify(page);
        renew(page);
        share->visits++;
        due += share->period_ns;
        if (share->period_ns && due > now_ns(CLOCK_MONOTONIC))
            sleep_until(due);
        else if (share->period_ns && now_ns(CLOCK_MONOTONIC) - due > MAX_BEHIND_NS)
            due = now_ns(CLOCK_MONOTONIC);
    }
    return NULL;
}

void memory_start(const struct options *options)
{
    memory.npages = options->set_bytes / PAGE_BYTES;
    memory.nshares = options->ncpus < MAX_CPUS ? options->ncpus : MAX_CPUS;
    memory.words = mmap(NULL, memory.npages * PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory.generation = calloc(memory.npages, sizeof(*memory.generation));
    if (memory.words == MAP_FAILED || !memory.generation || memory.npages < memory.nshares)
        fault(GUEST_EXIT_NO_MEMORY, "no %llu pages to check", (unsigned long long)memory.npages);
    for (uint64_t page = 0; page < memory.npages; page++)
        renew(page);
    for (unsigned i = 0; i < memory.nshares; i++) {
        struct share *share = &memory.share[i];

        share->cpu = i;
        share->first = memory.npages * i / memory.nshares;
        share->npages = memory.npages * (i + 1) / memory.nshares - share->first;
        share->period_ns = options->rate ? NS_PER_S * memory.nshares / options->rate : 0;
        pthread_create(&share->thread, NULL, check, share);
    }
}

uint64_t memory_finish(void)
{
    uint64_t visits = 0;

    for (unsigned i = 0; i < memory.nshares; i++) {
        pthread_join(memory.share[i].thread, NULL);
        visits += memory.share[i].visits;
    }
    for (uint64_t page = 0; page < memory.npages; page++)
        verify(page);
    return visits;
}
