/* SPDX-License-Identifier: MIT
 *
 * Finding and clearing features by name, and what falls with them. */
#include <string.h>

#include "vmm/x86/cpuid_features.h"

/* `feature` means nothing without `needs`. A guest that was told of one but not the other would
 * fault, and a mask like -avx512f would otherwise have to list a dozen names. */
static const struct {
    const char *feature, *needs;
} dependencies[] = {
    {"xsaveopt", "xsave"},
    {"xsavec", "xsave"},
    {"xgetbv1", "xsave"},
    {"xsaves", "xsave"},
    {"xfd", "xsave"},
    {"pku", "xsave"},
    {"mpx", "xsave"},
    {"amx-tile", "xsave"},
    {"avx", "xsave"},
    {"avx2", "avx"},
    {"fma", "avx"},
    {"f16c", "avx"},
    {"fma4", "avx"},
    {"xop", "avx"},
    {"vaes", "avx"},
    {"vpclmulqdq", "avx"},
    {"avx-vnni", "avx2"},
    {"avx-ifma", "avx2"},
    {"avx-vnni-int8", "avx2"},
    {"avx-vnni-int16", "avx2"},
    {"avx-ne-convert", "avx2"},
    {"avx512f", "avx2"},
    {"avx512dq", "avx512f"},
    {"avx512ifma", "avx512f"},
    {"avx512pf", "avx512f"},
    {"avx512er", "avx512f"},
    {"avx512cd", "avx512f"},
    {"avx512bw", "avx512f"},
    {"avx512vl", "avx512f"},
    {"avx512vbmi", "avx512f"},
    {"avx512vbmi2", "avx512f"},
    {"avx512vnni", "avx512f"},
    {"avx512bitalg", "avx512f"},
    {"avx512-vpopcntdq", "avx512f"},
    {"avx512-4vnniw", "avx512f"},
    {"avx512-4fmaps", "avx512f"},
    {"avx512-vp2intersect", "avx512f"},
    {"avx512-fp16", "avx512f"},
    {"avx512-bf16", "avx512f"},
    {"avx10", "avx512f"},
    {"amx-bf16", "amx-tile"},
    {"amx-int8", "amx-tile"},
    {"amx-fp16", "amx-tile"},
    {"amx-complex", "amx-tile"},
    {"xcr0-avx", "avx"},
    {"xcr0-bndregs", "mpx"},
    {"xcr0-bndcsr", "mpx"},
    {"xcr0-opmask", "avx512f"},
    {"xcr0-zmm-hi256", "avx512f"},
    {"xcr0-hi16-zmm", "avx512f"},
    {"xcr0-pkru", "pku"},
    {"xcr0-xtilecfg", "amx-tile"},
    {"xcr0-xtiledata", "amx-tile"},
};

const struct machine_cpuid_entry *cpuid_find_const(const struct machine_description *description,
                                                   uint32_t function, uint32_t index)
{
    for (unsigned i = 0; i < description->ncpuid; i++) {
        const struct machine_cpuid_entry *entry = &description->cpuid[i];
        if (entry->function == function && entry->index == index)
            return entry;
    }
    return NULL;
}

struct machine_cpuid_entry *cpuid_find(struct machine_description *description, uint32_t function,
                                       uint32_t index)
{
    const struct machine_cpuid_entry *entry = cpuid_find_const(description, function, index);

    return entry ? &description->cpuid[entry - description->cpuid] : NULL;
}

uint32_t *cpuid_register(struct machine_cpuid_entry *entry, enum cpuid_register reg)
{
    uint32_t *const registers[] = {&entry->eax, &entry->ebx, &entry->ecx, &entry->edx};

    return registers[reg];
}

/* The mask of the bits in a word that have this name. */
static uint32_t named_bits(const struct cpuid_word *word, const char *name)
{
    uint32_t bits = 0;

    for (unsigned bit = 0; bit < 32; bit++) {
        if (word->names[bit] && strcmp(word->names[bit], name) == 0)
            bits |= 1u << bit;
    }
    return bits;
}

bool cpuid_has(const struct machine_description *description, const char *name)
{
    for (size_t i = 0; i < cpuid_nwords; i++) {
        const struct cpuid_word *word = &cpuid_words[i];
        const struct machine_cpuid_entry *entry =
            cpuid_find_const(description, word->function, word->index);
        struct machine_cpuid_entry copy;

        if (!entry)
            continue;
        copy = *entry;
        if (*cpuid_register(&copy, word->reg) & named_bits(word, name))
            return true;
    }
    return false;
}

bool cpuid_clear(struct machine_description *description, const char *name)
{
    bool known = false;

    for (size_t i = 0; i < cpuid_nwords; i++) {
        const struct cpuid_word *word = &cpuid_words[i];
        uint32_t bits = named_bits(word, name);
        struct machine_cpuid_entry *entry = cpuid_find(description, word->function, word->index);

        known |= bits != 0;
        if (entry)
            *cpuid_register(entry, word->reg) &= ~bits;
    }
    return known;
}

void cpuid_clear_dependents(struct machine_description *description)
{
    /* The table is in the order of falling: one pass is enough. */
    for (size_t i = 0; i < sizeof(dependencies) / sizeof(dependencies[0]); i++) {
        if (!cpuid_has(description, dependencies[i].needs))
            (void)cpuid_clear(description, dependencies[i].feature);
    }
}
