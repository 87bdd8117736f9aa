/* SPDX-License-Identifier: MIT
 *
 * Counters that one thread adds to and any thread reads: plain loads and stores, made atomic. */
#include "vmm/exit_trace.h"

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A key is an address, an access and a bit that makes it differ from a free place. */
#define KEY_SHIFT 3
/* Fibonacci hashing: the upper bits of the product depend on all of the key's. */
#define HASH_FACTOR 0x9e3779b97f4a7c15ull
#define HASH_SHIFT  56

_Static_assert(EXIT_TRACE_PLACES == 1u << (64 - HASH_SHIFT), "a hash is a place's index");

static uint64_t load(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void store(uint64_t *counter, uint64_t value)
{
    __atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static void add(struct exit_trace_count *into, const struct exit_trace_count *more)
{
    store(&into->exits, load(&into->exits) + load(&more->exits));
    store(&into->values, load(&into->values) + load(&more->values));
    store(&into->total_ns, load(&into->total_ns) + load(&more->total_ns));
    if (load(&more->max_ns) > load(&into->max_ns))
        store(&into->max_ns, load(&more->max_ns));
}

uint64_t exit_trace_key(enum exit_trace_access access, uint64_t address)
{
    if (access == EXIT_TRACE_MMIO_READ || access == EXIT_TRACE_MMIO_WRITE)
        address -= address % EXIT_TRACE_PAGE_BYTES;
    return address << KEY_SHIFT | (uint64_t)access << 1 | 1;
}

enum exit_trace_access exit_trace_key_access(uint64_t key)
{
    return (enum exit_trace_access)(key >> 1 & (EXIT_TRACE_NACCESSES - 1));
}

uint64_t exit_trace_key_address(uint64_t key)
{
    return key >> KEY_SHIFT;
}

/* Where this key is counted. A new one takes a free place; where there is none, it shares. */
static struct exit_trace_count *find(struct exit_trace *trace, uint64_t key)
{
    uint64_t first = key * HASH_FACTOR >> HASH_SHIFT;

    for (unsigned i = 0; i < EXIT_TRACE_PLACES; i++) {
        struct exit_trace_place *place = &trace->place[(first + i) % EXIT_TRACE_PLACES];

        if (place->key == key)
            return &place->count;
        if (!place->key) {
            store(&place->key, key);
            return &place->count;
        }
    }
    return &trace->elsewhere[exit_trace_key_access(key)];
}

/* What the exit accessed, or 0. */
static uint64_t accessed(const struct kvm_run *run, uint64_t *nvalues)
{
    if (run->exit_reason == KVM_EXIT_IO) {
        *nvalues = run->io.count;
        return exit_trace_key(run->io.direction == KVM_EXIT_IO_OUT ? EXIT_TRACE_PORT_OUT
                                                                   : EXIT_TRACE_PORT_IN,
                              run->io.port);
    }
    if (run->exit_reason == KVM_EXIT_MMIO)
        return exit_trace_key(run->mmio.is_write ? EXIT_TRACE_MMIO_WRITE : EXIT_TRACE_MMIO_READ,
                              run->mmio.phys_addr);
    return 0;
}

void exit_trace_add(struct exit_trace *trace, const struct kvm_run *run, uint64_t handled_ns)
{
    struct exit_trace_count one = {
        .exits = 1, .values = 1, .total_ns = handled_ns, .max_ns = handled_ns};
    uint64_t key = accessed(run, &one.values);
    unsigned reason =
        run->exit_reason < EXIT_TRACE_REASONS ? run->exit_reason : EXIT_TRACE_REASONS - 1;

    add(&trace->reason[reason], &one);
    if (key)
        add(find(trace, key), &one);
}

void exit_trace_interrupted(struct exit_trace *trace)
{
    store(&trace->interrupted, load(&trace->interrupted) + 1);
}

void exit_trace_merge(struct exit_trace *into, const struct exit_trace *from)
{
    into->interrupted += load(&from->interrupted);
    for (unsigned i = 0; i < EXIT_TRACE_REASONS; i++)
        add(&into->reason[i], &from->reason[i]);
    for (unsigned i = 0; i < EXIT_TRACE_NACCESSES; i++)
        add(&into->elsewhere[i], &from->elsewhere[i]);
    for (unsigned i = 0; i < EXIT_TRACE_PLACES; i++) {
        uint64_t key = load(&from->place[i].key);

        if (key)
            add(find(into, key), &from->place[i].count);
    }
}

/* Most exits first; equal ones by key, so that one state has one order. */
static int compare(const void *one, const void *other)
{
    const struct exit_trace_place *a = one, *b = other;

    if (a->count.exits != b->count.exits)
        return a->count.exits < b->count.exits ? 1 : -1;
    return a->key < b->key ? -1 : a->key > b->key;
}

unsigned exit_trace_top(const struct exit_trace *trace, struct exit_trace_place *top, unsigned ntop,
                        struct exit_trace_count *others)
{
    struct exit_trace_place sorted[EXIT_TRACE_PLACES];
    unsigned nplaces = 0;

    for (unsigned i = 0; i < EXIT_TRACE_PLACES; i++) {
        if (trace->place[i].key)
            sorted[nplaces++] = trace->place[i];
    }
    qsort(sorted, nplaces, sizeof(sorted[0]), compare);
    if (ntop > nplaces)
        ntop = nplaces;
    memcpy(top, sorted, ntop * sizeof(sorted[0]));
    memcpy(others, trace->elsewhere, sizeof(trace->elsewhere));
    for (unsigned i = ntop; i < nplaces; i++)
        add(&others[exit_trace_key_access(sorted[i].key)], &sorted[i].count);
    return ntop;
}

#define REASON(name) [name] = #name

const char *exit_trace_reason_name(unsigned reason)
{
    /* What KVM on x86 can say. */
    static const char *const names[EXIT_TRACE_REASONS] = {
        REASON(KVM_EXIT_UNKNOWN),
        REASON(KVM_EXIT_EXCEPTION),
        REASON(KVM_EXIT_IO),
        REASON(KVM_EXIT_HYPERCALL),
        REASON(KVM_EXIT_DEBUG),
        REASON(KVM_EXIT_HLT),
        REASON(KVM_EXIT_MMIO),
        REASON(KVM_EXIT_IRQ_WINDOW_OPEN),
        REASON(KVM_EXIT_SHUTDOWN),
        REASON(KVM_EXIT_FAIL_ENTRY),
        REASON(KVM_EXIT_INTR),
        REASON(KVM_EXIT_SET_TPR),
        REASON(KVM_EXIT_TPR_ACCESS),
        REASON(KVM_EXIT_NMI),
        REASON(KVM_EXIT_INTERNAL_ERROR),
        REASON(KVM_EXIT_SYSTEM_EVENT),
        REASON(KVM_EXIT_IOAPIC_EOI),
        REASON(KVM_EXIT_HYPERV),
        REASON(KVM_EXIT_X86_RDMSR),
        REASON(KVM_EXIT_X86_WRMSR),
        REASON(KVM_EXIT_DIRTY_RING_FULL),
        REASON(KVM_EXIT_AP_RESET_HOLD),
        REASON(KVM_EXIT_X86_BUS_LOCK),
        REASON(KVM_EXIT_XEN),
#ifdef KVM_EXIT_NOTIFY
        REASON(KVM_EXIT_NOTIFY),
#endif
#ifdef KVM_EXIT_MEMORY_FAULT
        REASON(KVM_EXIT_MEMORY_FAULT),
#endif
    };

    return reason < EXIT_TRACE_REASONS ? names[reason] : NULL;
}
