/* SPDX-License-Identifier: MIT
 *
 * What vCPUs leave KVM_RUN for, how often, and how long user space takes over it. Each vCPU's
 * thread counts in a struct of its own, without a lock; who wants to know merges them into another,
 * while they count on. */
#ifndef VMM_EXIT_TRACE_H
#define VMM_EXIT_TRACE_H

#include <stdint.h>

struct kvm_run;

/* Exit reasons as KVM numbers them; what lies beyond counts as the last one. */
#define EXIT_TRACE_REASONS 64
/* Ports and MMIO pages that are told apart, by direction; the first ones that are met. */
#define EXIT_TRACE_PLACES 256
/* MMIO is told apart by page. */
#define EXIT_TRACE_PAGE_BYTES 4096u

enum exit_trace_access {
    EXIT_TRACE_PORT_IN,
    EXIT_TRACE_PORT_OUT,
    EXIT_TRACE_MMIO_READ,
    EXIT_TRACE_MMIO_WRITE,
};

#define EXIT_TRACE_NACCESSES 4

struct exit_trace_count {
    uint64_t exits;
    uint64_t values; /* moved by them: a string instruction may bring many in one exit */
    uint64_t total_ns, max_ns;
};

struct exit_trace_place {
    uint64_t key; /* exit_trace_key(); 0: free */
    struct exit_trace_count count;
};

/* All zeroes: nothing has happened yet. A cache line of one vCPU holds nothing of another's. */
struct exit_trace {
    _Alignas(64) uint64_t interrupted; /* KVM_RUN returned without an exit: EINTR */
    struct exit_trace_count reason[EXIT_TRACE_REASONS];
    struct exit_trace_count elsewhere[EXIT_TRACE_NACCESSES]; /* places that found no room */
    struct exit_trace_place place[EXIT_TRACE_PLACES];
};

/* A port, or any address in an MMIO page, and the way the data go. */
uint64_t exit_trace_key(enum exit_trace_access access, uint64_t address);
enum exit_trace_access exit_trace_key_access(uint64_t key);
uint64_t exit_trace_key_address(uint64_t key); /* the port, or the page's */

/* The exit that `run` tells of was handled, in so many nanoseconds. The trace's owner only. */
void exit_trace_add(struct exit_trace *trace, const struct kvm_run *run, uint64_t handled_ns);
void exit_trace_interrupted(struct exit_trace *trace);

/* Adds what `from` has counted to `into`, which is the caller's. Any thread: exits that happen
 * meanwhile may be there in part. */
void exit_trace_merge(struct exit_trace *into, const struct exit_trace *from);

/* The up to ntop places with the most exits, in falling order, and all the others by access.
 * Returns how many; the trace is the caller's. */
unsigned exit_trace_top(const struct exit_trace *trace, struct exit_trace_place *top, unsigned ntop,
                        struct exit_trace_count *others);

/* KVM's name of a reason (linux/kvm.h); NULL where there is none. */
const char *exit_trace_reason_name(unsigned reason);

#endif
