/* SPDX-License-Identifier: MIT
 *
 * Between the state guest and its test: a mailbox for each vCPU in guest RAM. The test fills in a
 * job and then its number; the vCPU does the job between two beats and stores the number into
 * `done`. What arrives meanwhile (interrupts, NMIs, exceptions) is counted. */
#ifndef TESTS_KVM_STATE_GUEST_MAILBOX_H
#define TESTS_KVM_STATE_GUEST_MAILBOX_H

#include <stdint.h>

#define STATE_GUEST_GPA      0x200000u /* mailboxes of CPU 0, 1, … */
#define STATE_GUEST_MAX_CPUS 16

/* Words of a local APIC's interrupt command register (SDM volume 3, 10.6.1). */
#define STATE_GUEST_ICR_IPI  0x0041u
#define STATE_GUEST_ICR_NMI  0x0400u
#define STATE_GUEST_ICR_INIT 0x4500u
#define STATE_GUEST_ICR_SIPI 0x0607u

enum state_guest_job {
    STATE_GUEST_DEADLINE,  /* timer: at the TSC of now + a */
    STATE_GUEST_ONE_SHOT,  /* timer: once, after a counts of KVM's local APIC, 1 ns each */
    STATE_GUEST_PERIODIC,  /* timer: every a counts */
    STATE_GUEST_PIT,       /* channel 0: command byte a, count b */
    STATE_GUEST_PIT_ROUTE, /* its interrupt comes through the PIC (0) or the IO-APIC (1) */
    STATE_GUEST_HALT,      /* halts until one interrupt has come */
    STATE_GUEST_MASK,      /* interrupts off until `release` is this job's number */
    STATE_GUEST_HOLD_NMI,  /* the next NMI's handler stays in until `release` is that number */
    STATE_GUEST_PREPARE,   /* CPU a is what the next SIPI starts */
    STATE_GUEST_COMMAND,   /* interrupt command word b to CPU a */
    STATE_GUEST_WALL,     /* result: time of day; the host's wall clock is asked again with a = 1 */
    STATE_GUEST_READ_MSR, /* result: MSR a */
    STATE_GUEST_WRITE_MSR, /* MSR a = b */
};

enum state_guest_source {
    STATE_GUEST_FROM_TIMER, /* the local APIC's */
    STATE_GUEST_FROM_PIT,
    STATE_GUEST_FROM_IPI,
    STATE_GUEST_SOURCES,
};

struct state_guest_mailbox {
    /* Test */
    uint64_t job; /* number of the job; 0: none yet. Stored last */
    uint64_t kind, a, b;
    uint64_t release;
    uint64_t unused[3];
    /* Guest */
    uint64_t done; /* number of the last job that is through */
    uint64_t result;
    uint64_t starts;      /* times that this CPU came up */
    uint64_t beats;       /* grow while it makes progress with interrupts on */
    uint64_t waits;       /* grow while it waits to be released */
    uint64_t clock_steps; /* its clock went back; or behind another CPU's, where KVM calls the
                             clock stable */
    uint64_t interrupts[STATE_GUEST_SOURCES];
    uint64_t impossible; /* interrupts that came with interrupts off: ignored, the emulator's */
    uint64_t early;      /* deadline interrupts that came before their TSC */
    uint64_t nmis;
    uint64_t faults; /* page faults; the handler returns */
    uint64_t fault_address, fault_error;
};

#endif
