/* SPDX-License-Identifier: MIT
 *
 * The table of feature names. */
#include "vmm/x86/cpuid_features.h"

#include <stdio.h>

static const char *const names_1_edx[32] = {
    "fpu",  "vme",  "de",   "pse", "tsc",  "msr", "pae",   "mce", "cx8",     "apic", NULL,
    "sep",  "mtrr", "pge",  "mca", "cmov", "pat", "pse36", "pn",  "clflush", NULL,   "ds",
    "acpi", "mmx",  "fxsr", "sse", "sse2", "ss",  "ht",    "tm",  "ia64",    "pbe"};

static const char *const names_1_ecx[32] = {
    "pni",          "pclmulqdq", "dtes64", "monitor", "ds-cpl", "vmx",    "smx",    "est",
    "tm2",          "ssse3",     "cid",    "sdbg",    "fma",    "cx16",   "xtpr",   "pdcm",
    NULL,           "pcid",      "dca",    "sse4.1",  "sse4.2", "x2apic", "movbe",  "popcnt",
    "tsc-deadline", "aes",       "xsave",  "osxsave", "avx",    "f16c",   "rdrand", "hypervisor"};

static const char *const names_6_eax[32] = {[2] = "arat"};

static const char *const names_7_0_ebx[32] = {
    "fsgsbase",   "tsc-adjust", "sgx",        "bmi1",     "hle",      "avx2",     "fdp-excptn-only",
    "smep",       "bmi2",       "erms",       "invpcid",  "rtm",      "cqm",      "zero-fcs-fds",
    "mpx",        "rdt-a",      "avx512f",    "avx512dq", "rdseed",   "adx",      "smap",
    "avx512ifma", "pcommit",    "clflushopt", "clwb",     "intel-pt", "avx512pf", "avx512er",
    "avx512cd",   "sha-ni",     "avx512bw",   "avx512vl"};

static const char *const names_7_0_ecx[32] = {[0] = "prefetchwt1",
                                              [1] = "avx512vbmi",
                                              [2] = "umip",
                                              [3] = "pku",
                                              [4] = "ospke",
                                              [5] = "waitpkg",
                                              [6] = "avx512vbmi2",
                                              [7] = "shstk",
                                              [8] = "gfni",
                                              [9] = "vaes",
                                              [10] = "vpclmulqdq",
                                              [11] = "avx512vnni",
                                              [12] = "avx512bitalg",
                                              [13] = "tme",
                                              [14] = "avx512-vpopcntdq",
                                              [16] = "la57",
                                              [22] = "rdpid",
                                              [23] = "key-locker",
                                              [24] = "bus-lock-detect",
                                              [25] = "cldemote",
                                              [27] = "movdiri",
                                              [28] = "movdir64b",
                                              [29] = "enqcmd",
                                              [30] = "sgxlc",
                                              [31] = "pks"};

static const char *const names_7_0_edx[32] = {[2] = "avx512-4vnniw",
                                              [3] = "avx512-4fmaps",
                                              [4] = "fsrm",
                                              [5] = "uintr",
                                              [8] = "avx512-vp2intersect",
                                              [9] = "srbds-ctrl",
                                              [10] = "md-clear",
                                              [11] = "rtm-always-abort",
                                              [13] = "tsx-force-abort",
                                              [14] = "serialize",
                                              [15] = "hybrid",
                                              [16] = "tsx-ldtrk",
                                              [18] = "pconfig",
                                              [19] = "arch-lbr",
                                              [20] = "ibt",
                                              [22] = "amx-bf16",
                                              [23] = "avx512-fp16",
                                              [24] = "amx-tile",
                                              [25] = "amx-int8",
                                              [26] = "spec-ctrl",
                                              [27] = "stibp",
                                              [28] = "flush-l1d",
                                              [29] = "arch-capabilities",
                                              [30] = "core-capability",
                                              [31] = "ssbd"};

static const char *const names_7_1_eax[32] = {
    [0] = "sha512",      [1] = "sm3",       [2] = "sm4",       [3] = "rao-int",  [4] = "avx-vnni",
    [5] = "avx512-bf16", [6] = "lass",      [7] = "cmpccxadd", [10] = "fzrm",    [11] = "fsrs",
    [12] = "fsrc",       [17] = "fred",     [18] = "lkgs",     [19] = "wrmsrns", [21] = "amx-fp16",
    [22] = "hreset",     [23] = "avx-ifma", [26] = "lam",      [27] = "msrlist"};

static const char *const names_7_1_edx[32] = {
    [4] = "avx-vnni-int8",   [5] = "avx-ne-convert", [8] = "amx-complex",
    [10] = "avx-vnni-int16", [14] = "prefetchiti",   [19] = "avx10"};

static const char *const names_7_2_edx[32] = {"intel-psfd", "ipred-ctrl", "rrsba-ctrl",
                                              "ddpd-u",     "bhi-ctrl",   "mcdt-no"};

/* Components of XCR0 and of IA32_XSS. */
static const char *const names_d_0_eax[32] = {
    [0] = "xcr0-x87",    [1] = "xcr0-sse",       [2] = "xcr0-avx",       [3] = "xcr0-bndregs",
    [4] = "xcr0-bndcsr", [5] = "xcr0-opmask",    [6] = "xcr0-zmm-hi256", [7] = "xcr0-hi16-zmm",
    [9] = "xcr0-pkru",   [17] = "xcr0-xtilecfg", [18] = "xcr0-xtiledata"};
static const char *const names_d_0_edx[32] = {NULL};
static const char *const names_d_1_eax[32] = {"xsaveopt", "xsavec", "xgetbv1", "xsaves", "xfd"};
static const char *const names_d_1_ecx[32] = {
    [8] = "xss-pt", [10] = "xss-pasid", [11] = "xss-cet-u", [12] = "xss-cet-s", [15] = "xss-lbr"};

static const char *const names_80000001_ecx[32] = {"lahf-lm",    "cmp-legacy",  "svm",
                                                   "extapic",    "cr8legacy",   "abm",
                                                   "sse4a",      "misalignsse", "3dnowprefetch",
                                                   "osvw",       "ibs",         "xop",
                                                   "skinit",     "wdt",         NULL,
                                                   "lwp",        "fma4",        "tce",
                                                   NULL,         "nodeid-msr",  NULL,
                                                   "tbm",        "topoext",     "perfctr-core",
                                                   "perfctr-nb", NULL,          "dbext",
                                                   "perftsc",    "perfctr-llc", "mwaitx",
                                                   NULL,         NULL};

/* AMD repeats leaf 1's bits here: the same names, so that one mask clears both. */
static const char *const names_80000001_edx[32] = {
    "fpu",  "vme",      "de",      "pse",     "tsc",  "msr", "pae",      "mce",
    "cx8",  "apic",     NULL,      "syscall", "mtrr", "pge", "mca",      "cmov",
    "pat",  "pse36",    NULL,      NULL,      "nx",   NULL,  "mmxext",   "mmx",
    "fxsr", "fxsr-opt", "pdpe1gb", "rdtscp",  NULL,   "lm",  "3dnowext", "3dnow"};

static const char *const names_80000007_edx[32] = {[8] = "invtsc"};

static const char *const names_80000008_ebx[32] = {
    [0] = "clzero",          [1] = "irperf",
    [2] = "xsaveerptr",      [4] = "rdpru",
    [9] = "wbnoinvd",        [12] = "ibpb",
    [14] = "ibrs",           [15] = "amd-stibp",
    [16] = "ibrs-always",    [17] = "stibp-always-on",
    [18] = "ibrs-preferred", [19] = "ibrs-same-mode",
    [24] = "amd-ssbd",       [25] = "virt-ssbd",
    [26] = "amd-no-ssb",     [27] = "cppc",
    [28] = "amd-psfd",       [29] = "btc-no",
    [30] = "ibpb-ret"};

static const char *const names_80000021_eax[32] = {
    [0] = "no-nested-data-bp",   [2] = "lfence-always-serializing",
    [6] = "null-sel-clr-base",   [8] = "auto-ibrs",
    [9] = "no-smm-ctl-msr",      [27] = "sbpb",
    [28] = "ibpb-brtype",        [29] = "srso-no",
    [30] = "srso-user-kernel-no"};

static const char *const names_40000001_eax[32] = {"kvmclock-old",
                                                   "kvm-nopiodelay",
                                                   "kvm-mmu",
                                                   "kvmclock",
                                                   "kvm-asyncpf",
                                                   "kvm-steal-time",
                                                   "kvm-pv-eoi",
                                                   "kvm-pv-unhalt",
                                                   NULL,
                                                   "kvm-pv-tlb-flush",
                                                   "kvm-asyncpf-vmexit",
                                                   "kvm-pv-ipi",
                                                   "kvm-poll-control",
                                                   "kvm-pv-sched-yield",
                                                   "kvm-asyncpf-int",
                                                   "kvm-msi-ext-dest-id",
                                                   "kvm-hc-map-gpa-range",
                                                   "kvm-migration-control",
                                                   NULL,
                                                   NULL,
                                                   NULL,
                                                   NULL,
                                                   NULL,
                                                   NULL,
                                                   "kvmclock-stable-bit",
                                                   NULL,
                                                   NULL,
                                                   NULL,
                                                   NULL,
                                                   NULL,
                                                   NULL,
                                                   NULL};

const struct cpuid_word cpuid_words[] = {
    {0x1, 0, CPUID_EDX, names_1_edx},
    {0x1, 0, CPUID_ECX, names_1_ecx},
    {0x6, 0, CPUID_EAX, names_6_eax},
    {0x7, 0, CPUID_EBX, names_7_0_ebx},
    {0x7, 0, CPUID_ECX, names_7_0_ecx},
    {0x7, 0, CPUID_EDX, names_7_0_edx},
    {0x7, 1, CPUID_EAX, names_7_1_eax},
    {0x7, 1, CPUID_EDX, names_7_1_edx},
    {0x7, 2, CPUID_EDX, names_7_2_edx},
    {0xd, 0, CPUID_EAX, names_d_0_eax},
    {0xd, 0, CPUID_EDX, names_d_0_edx},
    {0xd, 1, CPUID_EAX, names_d_1_eax},
    {0xd, 1, CPUID_ECX, names_d_1_ecx},
    {0x80000001, 0, CPUID_ECX, names_80000001_ecx},
    {0x80000001, 0, CPUID_EDX, names_80000001_edx},
    {0x80000007, 0, CPUID_EDX, names_80000007_edx},
    {0x80000008, 0, CPUID_EBX, names_80000008_ebx},
    {0x80000021, 0, CPUID_EAX, names_80000021_eax},
    {0x40000001, 0, CPUID_EAX, names_40000001_eax},
};

const size_t cpuid_nwords = sizeof(cpuid_words) / sizeof(cpuid_words[0]);

const char *cpuid_feature_name(const struct cpuid_word *word, unsigned bit, char *buf,
                               size_t buf_bytes)
{
    static const char *const registers[] = {"eax", "ebx", "ecx", "edx"};

    if (word->names[bit])
        return word->names[bit];
    (void)snprintf(buf, buf_bytes, "leaf %x.%x %s bit %u", word->function, word->index,
                   registers[word->reg], bit);
    return buf;
}
