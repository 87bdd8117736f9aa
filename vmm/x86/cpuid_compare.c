/* SPDX-License-Identifier: MIT
 *
 * Can one host honour what a guest was given by another? Features are compared bit by bit; what
 * merely describes the host (brand, caches, topology, frequencies) is not. */
#include <errno.h>
#include <stdio.h>

#include "vmm/x86/cpuid_features.h"

#define LEAF_BASIC     0x0
#define LEAF_XSAVE     0xd
#define LEAF_EXTENDED  0x80000000
#define LEAF_ADDRESSES 0x80000008

/* A list of what is missing that is cut where the line is full. */
struct shortage {
    char text[ERROR_TEXT_BYTES - 64];
    size_t used;
    unsigned unnamed;
};

static void lack(struct shortage *s, const char *what)
{
    size_t room = sizeof(s->text) - s->used;
    int length = snprintf(s->text + s->used, room, "%s%s", s->used ? ", " : "", what);

    if (length < 0 || (size_t)length >= room) {
        s->text[s->used] = '\0';
        s->unnamed++;
        return;
    }
    s->used += (size_t)length;
}

static void check_words(const struct machine_description *wanted,
                        const struct machine_description *host, struct shortage *s)
{
    for (size_t i = 0; i < cpuid_nwords; i++) {
        const struct cpuid_word *word = &cpuid_words[i];
        const struct machine_cpuid_entry *have =
            cpuid_find_const(host, word->function, word->index);
        const struct machine_cpuid_entry *want =
            cpuid_find_const(wanted, word->function, word->index);
        struct machine_cpuid_entry a = want ? *want : (struct machine_cpuid_entry){0};
        struct machine_cpuid_entry b = have ? *have : (struct machine_cpuid_entry){0};
        uint32_t missing = *cpuid_register(&a, word->reg) & ~*cpuid_register(&b, word->reg);

        for (; missing; missing &= missing - 1) {
            char buf[48];
            lack(s, cpuid_feature_name(word, (unsigned)__builtin_ctz(missing), buf, sizeof(buf)));
        }
    }
}

/* Numbers that may not shrink: the highest leaf of a range, the physical address width. */
static void check_limit(const struct machine_description *wanted,
                        const struct machine_description *host, uint32_t function, uint32_t mask,
                        const char *what, struct shortage *s)
{
    const struct machine_cpuid_entry *want = cpuid_find_const(wanted, function, 0);
    const struct machine_cpuid_entry *have = cpuid_find_const(host, function, 0);
    uint32_t limit = have ? have->eax & mask : 0;
    char text[64];

    if (!want || (want->eax & mask) <= limit)
        return;
    (void)snprintf(text, sizeof(text), "%s 0x%x (here 0x%x)", what, want->eax & mask, limit);
    lack(s, text);
}

/* The guest's XSAVE area is laid out by these numbers, and a state saved with one layout does not
 * load into another. */
static void check_xsave_layout(const struct machine_description *wanted,
                               const struct machine_description *host, struct shortage *s)
{
    const struct machine_cpuid_entry *components = cpuid_find_const(wanted, LEAF_XSAVE, 0);

    for (uint32_t i = 2; components && i < 32; i++) {
        const struct machine_cpuid_entry *want = cpuid_find_const(wanted, LEAF_XSAVE, i);
        const struct machine_cpuid_entry *have = cpuid_find_const(host, LEAF_XSAVE, i);
        char text[64];

        if (!(components->eax & 1u << i) || !want || !have)
            continue;
        if (want->eax == have->eax && want->ebx == have->ebx)
            continue;
        (void)snprintf(text, sizeof(text), "the layout of XSAVE component %u", i);
        lack(s, text);
    }
}

static void check_vendor(const struct machine_description *wanted,
                         const struct machine_description *host, struct shortage *s)
{
    const struct machine_cpuid_entry *want = cpuid_find_const(wanted, LEAF_BASIC, 0);
    const struct machine_cpuid_entry *have = cpuid_find_const(host, LEAF_BASIC, 0);

    if (want && have &&
        (want->ebx != have->ebx || want->ecx != have->ecx || want->edx != have->edx))
        lack(s, "the same CPU vendor");
}

int cpuid_compare(const struct machine_description *wanted, const struct machine_description *host,
                  struct error *err)
{
    struct shortage s = {0};

    check_vendor(wanted, host, &s);
    check_words(wanted, host, &s);
    check_limit(wanted, host, LEAF_BASIC, UINT32_MAX, "highest leaf", &s);
    check_limit(wanted, host, LEAF_EXTENDED, UINT32_MAX, "highest extended leaf", &s);
    check_limit(wanted, host, LEAF_ADDRESSES, 0xff, "physical address bits", &s);
    check_xsave_layout(wanted, host, &s);
    if (s.used && s.unnamed)
        return error_set(err, ENOTSUP, "this host lacks CPU features: %s and %u more", s.text,
                         s.unnamed);
    return s.used ? error_set(err, ENOTSUP, "this host lacks CPU features: %s", s.text) : 0;
}
