/* SPDX-License-Identifier: MIT
 *
 * The writer VM's address space and its vCPUs' first state. All of it is mapped one to one in pages
 * of 2 MiB, with accessed and dirty bits set beforehand: nobody has to write a page table. */
#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>

#include "tools/writer_vm_internal.h"
#include "vmm/base/size.h"

/* Everything lies above 4 GiB, where there are no devices and no pages of KVM's own. */
#define BASE_GPA    0x100000000ull
#define LARGE_BYTES (2 * SIZE_MIB)
#define PAGE_BYTES  ((uint64_t)MEMORY_PAGE_BYTES)

/* SDM vol. 3, 4.5: P, R/W, U/S, A, D, PS; entries of a table and what one of them maps. */
#define TABLE_FLAGS   0x27ull
#define PAGE_FLAGS    0xe7ull
#define ENTRIES       512u
#define PD_MAPS_BYTES SIZE_GIB
/* Pages that one list or one slot may have: far more than a host, far less than 47 address bits. */
#define MOST_PAGES (1ull << 30)

#define CR0_PE        0x1ull
#define CR0_MP        0x2ull
#define CR0_ET        0x10ull
#define CR0_NE        0x20ull
#define CR0_WP        0x10000ull
#define CR0_PG        0x80000000ull
#define CR4_PAE       0x20ull
#define EFER_LME      0x100ull
#define EFER_LMA      0x400ull
#define RFLAGS_FIXED  0x2ull
#define RFLAGS_IF     0x200ull
#define TYPE_DATA     3
#define TYPE_CODE     11
#define TYPE_TSS_BUSY 11
#define MAX_CPUID     256u

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static int check(const struct writer_vm_config *config, struct error *err)
{
    if (!config->nslots || config->nslots > WRITER_VM_MAX_SLOTS)
        return error_set(err, EINVAL, "%u slots: 1 to %d are possible", config->nslots,
                         WRITER_VM_MAX_SLOTS);
    if (!config->ncpus || config->ncpus > WRITER_VM_MAX_CPUS)
        return error_set(err, EINVAL, "%u vCPUs: 1 to %d are possible", config->ncpus,
                         WRITER_VM_MAX_CPUS);
    if (config->privilege != 0 && config->privilege != 3)
        return error_set(err, EINVAL, "ring %u: 3 or 0 is possible", config->privilege);
    for (unsigned i = 0; i < config->nslots; i++) {
        if (!config->npages[i] || config->npages[i] > MOST_PAGES)
            return error_set(err, EINVAL, "slot %u of %" PRIu64 " pages: 1 to %llu are possible", i,
                             config->npages[i], MOST_PAGES);
    }
    if (!config->max_list || config->max_list > MOST_PAGES)
        return error_set(err, EINVAL, "a list of %" PRIu64 " pages: 1 to %llu are possible",
                         config->max_list, MOST_PAGES);
    return 0;
}

int writer_layout_plan(struct writer_layout *layout, const struct writer_vm_config *config,
                       struct memory_region *ranges, struct error *err)
{
    struct memory_region *private = &ranges[config->nslots];
    gpa_t next = BASE_GPA;
    int ret = check(config, err);

    if (ret)
        return ret;
    for (unsigned i = 0; i < config->nslots; i++) {
        ranges[i] = (struct memory_region){.gpa = next, .npages = config->npages[i]};
        next = round_up(next + config->npages[i] * PAGE_BYTES, LARGE_BYTES);
    }
    layout->code = next;
    layout->mailbox = layout->code + PAGE_BYTES;
    layout->list = layout->mailbox + config->ncpus * PAGE_BYTES;
    layout->list_bytes = round_up(config->max_list * sizeof(gpa_t), PAGE_BYTES);
    layout->tables = layout->list + config->ncpus * layout->list_bytes;
    /* They map themselves too, for which one more is enough: it maps 1 GiB of tables. */
    layout->npds = (unsigned)(layout->tables / PD_MAPS_BYTES) + 2;
    layout->npdpts = (layout->npds + ENTRIES - 1) / ENTRIES;
    layout->end =
        round_up(layout->tables + (1ull + layout->npdpts + layout->npds) * PAGE_BYTES, LARGE_BYTES);
    *private = (struct memory_region){
        .gpa = layout->code, .npages = (layout->end - layout->code) / PAGE_BYTES, .unlogged = true};
    return 0;
}

static uint64_t *table(const struct writer_layout *layout, const struct memory *memory,
                       unsigned index)
{
    return memory_at(memory, layout->tables + index * PAGE_BYTES, PAGE_BYTES);
}

void writer_layout_fill(const struct writer_layout *layout, const struct memory *memory)
{
    gpa_t first_pdpt = layout->tables + PAGE_BYTES;
    gpa_t first_pd = first_pdpt + layout->npdpts * PAGE_BYTES;

    memcpy(memory_at(memory, layout->code, PAGE_BYTES), writer_code_start,
           (size_t)(writer_code_end - writer_code_start));
    for (unsigned i = 0; i < layout->npdpts; i++)
        table(layout, memory, 0)[i] = (first_pdpt + i * PAGE_BYTES) | TABLE_FLAGS;
    /* Nothing is mapped below the base. */
    for (unsigned i = BASE_GPA / PD_MAPS_BYTES; i < layout->npds; i++)
        table(layout, memory, 1 + i / ENTRIES)[i % ENTRIES] =
            (first_pd + i * PAGE_BYTES) | TABLE_FLAGS;
    for (gpa_t gpa = BASE_GPA; gpa < layout->end; gpa += LARGE_BYTES) {
        uint64_t *pd = table(layout, memory, 1 + layout->npdpts + (unsigned)(gpa / PD_MAPS_BYTES));

        pd[gpa / LARGE_BYTES % ENTRIES] = gpa | PAGE_FLAGS;
    }
}

/* Without CPUID a vCPU has no long mode and 36 address bits. */
static int give_cpuid(const struct writer_vm *vm, int vcpu_fd, struct error *err)
{
    struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) + MAX_CPUID * sizeof(cpuid->entries[0]));
    int ret;

    if (!cpuid)
        return error_set(err, ENOMEM, "no memory for CPUID");
    cpuid->nent = MAX_CPUID;
    ret = KVM_IOCTL(vm->kvm->fd, KVM_GET_SUPPORTED_CPUID, cpuid, err);
    if (ret >= 0)
        ret = KVM_IOCTL(vcpu_fd, KVM_SET_CPUID2, cpuid, err);
    free(cpuid);
    return ret < 0 ? ret : 0;
}

/* Nothing ever loads a selector: their values only have to be of the right ring. */
static void set_segments(struct kvm_sregs *sregs, unsigned privilege)
{
    uint8_t dpl = (uint8_t)privilege;
    struct kvm_segment data = {.limit = UINT32_MAX,
                               .selector = (uint16_t)(privilege ? 0x2b : 0x18),
                               .type = TYPE_DATA,
                               .present = 1,
                               .dpl = dpl,
                               .db = 1,
                               .s = 1,
                               .g = 1};

    sregs->cs = data;
    sregs->cs.selector = (uint16_t)(privilege ? 0x33 : 0x10);
    sregs->cs.type = TYPE_CODE;
    sregs->cs.db = 0;
    sregs->cs.l = 1;
    sregs->ds = sregs->es = sregs->fs = sregs->gs = sregs->ss = data;
    sregs->tr =
        (struct kvm_segment){.limit = 0x67, .selector = 0x40, .type = TYPE_TSS_BUSY, .present = 1};
    sregs->ldt = (struct kvm_segment){.unusable = 1};
    /* No table: an exception ends in a triple fault, which is a reason. */
    sregs->gdt = (struct kvm_dtable){0};
    sregs->idt = (struct kvm_dtable){0};
}

int writer_vcpu_reset(const struct writer_vm *vm, unsigned cpu, struct error *err)
{
    int fd = vm->vcpus.vcpu[cpu].fd;
    struct kvm_regs regs = {
        .rip = vm->layout.code,
        .rbp = vm->layout.mailbox + cpu * PAGE_BYTES,
        .r15 = cpu + 1,
        .rflags = RFLAGS_FIXED | RFLAGS_IF,
    };
    struct kvm_sregs sregs;
    int ret = give_cpuid(vm, fd, err);

    if (!ret)
        ret = KVM_IOCTL(fd, KVM_GET_SREGS, &sregs, err);
    if (ret)
        return ret;
    set_segments(&sregs, vm->privilege);
    sregs.cr0 = CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG;
    sregs.cr3 = vm->layout.tables;
    sregs.cr4 = CR4_PAE;
    sregs.efer = EFER_LME | EFER_LMA;
    ret = KVM_IOCTL(fd, KVM_SET_SREGS, &sregs, err);
    if (!ret)
        ret = KVM_IOCTL(fd, KVM_SET_REGS, &regs, err);
    return ret;
}
