/* SPDX-License-Identifier: MIT
 *
 * What the test guest and the outside world agree on: ports, exit codes, the statistics page. Read
 * by the guest, by the VMM's probe device and by observers; includes nothing but fixed-width types.
 */
#ifndef GUEST_ABI_H
#define GUEST_ABI_H

#include <stddef.h>
#include <stdint.h>

/* ---- Ending. A 32-bit OUT of an exit code to this port ends the guest. The default is QEMU's
 * isa-debug-exit (docs/system/i386: `-device isa-debug-exit,iobase=0xf4,iosize=4`), which makes the
 * QEMU process exit with (code << 1) | 1; pageferry exits with the code itself. The device tree's
 * /exit node ("pageferry,exit-port", reg = <port 4>) names another port. */
#define GUEST_EXIT_PORT_DEFAULT 0xf4

enum guest_exit {
    GUEST_EXIT_OK = 0,
    GUEST_EXIT_BAD_COMMAND = 32, /* the command line names no workload or a bad parameter */
    GUEST_EXIT_NO_DEVICE = 33,   /* the workload needs a device that is not there */
    GUEST_EXIT_NO_MEMORY = 34,   /* too little RAM for the working set that was asked for */
    GUEST_EXIT_EXCEPTION = 40,   /* a CPU exception that nobody expected; a dump is printed */
    GUEST_EXIT_MEMORY = 41,      /* memcheck, fb: memory does not hold what was written last */
    GUEST_EXIT_CLOCK = 42,       /* the guest's clock went backwards */
    GUEST_EXIT_COUNTER = 43,     /* a probe access was lost or doubled */
    GUEST_EXIT_STAMP = 44,       /* a page that the probe device wrote is stale */
};

/* ---- Console: a 16550 at this port (device tree: "ns16550a"), interrupt line 4. */
#define GUEST_SERIAL_PORT 0x3f8
#define GUEST_SERIAL_IRQ  4

/* ---- Probe device ("pageferry,probe"): exists to be checked. It has one 32-bit counter per port
 * and MMIO window, and it stores into guest memory as a DMA engine would, which KVM's dirty log
 * does not see. All accesses are 32 bits wide, little-endian.
 *
 * Port window (base PROBE_PORT, 16 bytes) and MMIO window (base PROBE_MMIO, 4096 bytes) have the
 * same registers; each window has a counter of its own: +0  COUNT  read: returns the counter, then
 * adds 1. write: adds 1 (the value is ignored). +4  PEEK   read: returns the counter and changes
 * nothing. +8  STAMP  write of a guest frame number: the device adds 1 to its stamp sequence (64
 * bits, one for both windows) and stores the sequence, then its bitwise complement, as two
 * little-endian 64-bit words at the frame's first 16 bytes. A frame outside RAM is ignored and
 * counted. +12 STAMPED read: the low 32 bits of the stamp sequence. */
#define PROBE_PORT        0x5e0
#define PROBE_PORT_BYTES  16
#define PROBE_MMIO        0xd0000000u
#define PROBE_MMIO_BYTES  4096
#define PROBE_REG_COUNT   0
#define PROBE_REG_PEEK    4
#define PROBE_REG_STAMP   8
#define PROBE_REG_STAMPED 12

/* ---- Frame buffer ("pageferry,framebuffer"): plain memory that is no RAM, in a memslot of its
 * own. The device tree's /framebuffer node says whether there is one; no memory map lists it. What
 * is drawn there, and how, is the guest's affair. */
#define FRAMEBUFFER_GPA   0xe0000000u
#define FRAMEBUFFER_BYTES 0x1000000u

/* ---- Statistics page: the first page of the guest's image. An observer that maps guest RAM reads
 * it while the guest runs; every field is written by one vCPU only, with aligned 64-bit stores. */
#define GUEST_STATS_GPA   0x100000u
#define GUEST_STATS_MAGIC 0x3153544154534650ull /* "PFSTATS1", little-endian */
#define GUEST_MAX_CPUS    16

struct guest_cpu_stats {
    uint64_t heartbeat;   /* grows for as long as this vCPU makes progress */
    uint64_t work;        /* workload units done (pages written, accesses made, ticks slept) */
    uint64_t clock_ns;    /* the guest's own clock at the last heartbeat */
    uint64_t max_gap_ns;  /* longest time between two heartbeats by the guest's own clock */
    uint64_t clock_steps; /* times the clock was seen to go back: must stay 0 */
    uint64_t faults;      /* mismatches found: must stay 0 */
    uint64_t rounds;      /* complete passes over the working set */
    uint64_t tsc_steps;   /* times the raw TSC was seen to go back: tells, but is no fault */
};

struct guest_stats {
    uint64_t magic;          /* GUEST_STATS_MAGIC once the workload has begun */
    uint64_t version;        /* 1 */
    uint64_t ncpus;          /* vCPUs that take part */
    uint64_t workload_pages; /* pages in the working set, 0 where there is none */
    char workload[32];       /* NUL-terminated name */
    struct guest_cpu_stats cpu[GUEST_MAX_CPUS];
};

/* ---- Workload names, the first word of the command line. */
#define GUEST_WORKLOAD_HELLO    "hello"
#define GUEST_WORKLOAD_IDLE     "idle"
#define GUEST_WORKLOAD_DIRTY    "dirty"
#define GUEST_WORKLOAD_MEMCHECK "memcheck"
#define GUEST_WORKLOAD_COUNTER  "counter"
#define GUEST_WORKLOAD_STAMP    "stamp"
#define GUEST_WORKLOAD_ECHO     "echo"
#define GUEST_WORKLOAD_FB       "fb"

/* ---- Device tree hand-over. An ELF image that carries a note of this owner and type is handed the
 * machine's device tree as PVH module 1, whose command line is GUEST_FDT_MODULE; module 0 is the
 * (possibly empty) ramdisk. Images without the note (Linux) get no such module. */
#define GUEST_NOTE_OWNER       "pageferry"
#define GUEST_NOTE_DEVICE_TREE 1
#define GUEST_FDT_MODULE       "pageferry,device-tree"

/* ---- A byte on the console's input that asks a running workload to finish: it makes its last
 * check, prints its summary and exits. */
#define GUEST_FINISH_BYTE 'q'

#endif
