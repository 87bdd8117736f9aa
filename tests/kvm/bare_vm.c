/* SPDX-License-Identifier: MIT */
#include "tests/kvm/bare_vm.h"

#include <errno.h>
#include <linux/kvm.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define CODE_GPA        0x1000u
#define TABLE_GPA       0x2000u
#define CONTROL_GPA     0xf000u
#define CONTROL_LIMIT   4
#define REGION0_PAGES   16
#define DATA_GPA        0x1000000u
#define DATA_STRIDE     0x4000000u
#define FIRST_SEQUENCE  12345u
#define TSS_GPA         0xfffbd000ul
#define NO_LIMIT        0 /* the store counter never returns to 0 in a test's life */
#define KICK_SIGNAL     SIGUSR1
#define FLAGS_RESERVED1 2

extern const uint8_t dirty_writer_begin[];
extern const uint8_t dirty_writer_end[];

void bare_vm_require_kvm(void)
{
    struct error err = {""};
    struct kvm kvm;

    if (kvm_open(&kvm, &err)) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    kvm_close(&kvm);
}

/* An ioctl that must work in a test. */
static int must(int fd, unsigned long request, const char *name, void *argument)
{
    struct error err = {""};
    int result = kvm_ioctl(fd, request, name, argument, &err);

    if (result < 0)
        fail_msg("%s", err.text);
    return result;
}
#define MUST(fd, request, argument) must(fd, request, #request, argument)

static void set_registers(struct bare_vm *vm)
{
    struct kvm_sregs sregs;
    struct kvm_regs regs = {
        .rip = CODE_GPA,
        .rflags = FLAGS_RESERVED1,
        .rsi = TABLE_GPA,
        .rcx = vm->npages,
        .rbp = FIRST_SEQUENCE,
        .rsp = CONTROL_GPA,
    };
    const struct kvm_segment data = {
        .limit = UINT32_MAX, .selector = 16, .type = 3, .present = 1, .db = 1, .s = 1, .g = 1};
    const struct kvm_segment code = {
        .limit = UINT32_MAX, .selector = 8, .type = 11, .present = 1, .db = 1, .s = 1, .g = 1};

    MUST(vm->vcpu_fd, KVM_GET_SREGS, &sregs);
    sregs.cs = code;
    sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
    sregs.cr0 |= 1; /* protection on, paging off */
    MUST(vm->vcpu_fd, KVM_SET_SREGS, &sregs);
    MUST(vm->vcpu_fd, KVM_SET_REGS, &regs);
}

static void fill_region0(struct bare_vm *vm)
{
    uint32_t table[BARE_VM_MAX_PAGES];
    size_t code_bytes = (size_t)(dirty_writer_end - dirty_writer_begin);

    vm->npages = 0;
    for (unsigned i = 1; i < vm->memory.nregions; i++) {
        const struct memory_region *region = &vm->memory.region[i];
        for (uint64_t page = 0; page < region->npages; page++) {
            assert_true(vm->npages < BARE_VM_MAX_PAGES);
            table[vm->npages++] = (uint32_t)(region->gpa + page * MEMORY_PAGE_BYTES);
        }
    }
    assert_int_equal(memory_write(&vm->memory, CODE_GPA, dirty_writer_begin, code_bytes), 0);
    assert_int_equal(memory_write(&vm->memory, TABLE_GPA, table, vm->npages * sizeof(table[0])), 0);
}

void bare_vm_create(struct bare_vm *vm, const uint64_t *npages, unsigned nregions,
                    enum memory_backing backing)
{
    struct memory_region ranges[MEMORY_MAX_REGIONS] = {{.gpa = 0, .npages = REGION0_PAGES}};
    struct error err = {""};

    memset(vm, 0, sizeof(*vm));
    assert_true(nregions < MEMORY_MAX_REGIONS);
    for (unsigned i = 0; i < nregions; i++) {
        ranges[i + 1].gpa = DATA_GPA + (gpa_t)i * DATA_STRIDE;
        ranges[i + 1].npages = npages[i];
    }
    if (kvm_open(&vm->kvm, &err) || memory_create(&vm->memory, ranges, nregions + 1, backing, &err))
        fail_msg("%s", err.text);
    vm->vm_fd = MUST(vm->kvm.fd, KVM_CREATE_VM, NULL);
    MUST(vm->vm_fd, KVM_SET_TSS_ADDR, (void *)TSS_GPA);
    if (memory_set_slots(&vm->memory, vm->vm_fd, false, &err))
        fail_msg("%s", err.text);
    vm->vcpu_fd = MUST(vm->vm_fd, KVM_CREATE_VCPU, NULL);
    vm->run = mmap(NULL, vm->kvm.run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vm->vcpu_fd, 0);
    assert_ptr_not_equal(vm->run, MAP_FAILED);
    vm->sequence = FIRST_SEQUENCE;
    fill_region0(vm);
    set_registers(vm);
}

void bare_vm_destroy(struct bare_vm *vm)
{
    assert_false(vm->running);
    (void)munmap(vm->run, vm->kvm.run_bytes);
    (void)close(vm->vcpu_fd);
    (void)close(vm->vm_fd);
    memory_destroy(&vm->memory);
    kvm_close(&vm->kvm);
}

uint32_t bare_vm_predict(struct bare_vm *vm)
{
    vm->sequence = vm->sequence * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)vm->sequence * vm->npages >> 32);
}

void bare_vm_locate(const struct bare_vm *vm, uint32_t index, unsigned *region, uint64_t *page)
{
    *region = 1;
    *page = index;
    while (*page >= vm->memory.region[*region].npages)
        *page -= vm->memory.region[(*region)++].npages;
}

uint32_t bare_vm_heartbeat(const struct bare_vm *vm)
{
    const uint32_t *word = memory_at(&vm->memory, CONTROL_GPA, sizeof(*word));

    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set_limit(struct bare_vm *vm, uint32_t limit)
{
    assert_int_equal(memory_write(&vm->memory, CONTROL_GPA + CONTROL_LIMIT, &limit, sizeof(limit)),
                     0);
}

/* Runs until the guest halts (true) or a signal comes (false); prints anything else. */
static bool run_once(struct bare_vm *vm, bool *broken)
{
    int result = ioctl(vm->vcpu_fd, KVM_RUN, NULL);

    if (result < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (result == 0 && vm->run->exit_reason == KVM_EXIT_HLT)
        return true;
    *broken = true;
    printf("KVM_RUN: result %d, errno %d, exit reason %u\n", result, errno, vm->run->exit_reason);
    return false;
}

void bare_vm_store(struct bare_vm *vm, uint32_t stores)
{
    bool broken = false;

    set_limit(vm, bare_vm_heartbeat(vm) + stores);
    while (!run_once(vm, &broken))
        assert_false(broken);
}

static void on_kick(int number)
{
    (void)number;
}

static void *run_thread(void *argument)
{
    struct bare_vm *vm = argument;
    bool broken = false;

    while (!broken && !__atomic_load_n(&vm->stop, __ATOMIC_ACQUIRE))
        (void)run_once(vm, &broken);
    __atomic_store_n(&vm->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

void bare_vm_start(struct bare_vm *vm)
{
    struct sigaction action = {.sa_handler = on_kick};

    assert_int_equal(sigaction(KICK_SIGNAL, &action, NULL), 0);
    set_limit(vm, NO_LIMIT);
    vm->stop = vm->ended = false;
    vm->run->immediate_exit = 0;
    assert_int_equal(pthread_create(&vm->thread, NULL, run_thread, vm), 0);
    vm->running = true;
}

void bare_vm_stop(struct bare_vm *vm)
{
    assert_true(vm->running);
    __atomic_store_n(&vm->stop, true, __ATOMIC_RELEASE);
    /* Whether the signal comes before or in KVM_RUN, it returns (api.rst 5, immediate_exit). */
    __atomic_store_n(&vm->run->immediate_exit, 1, __ATOMIC_RELEASE);
    (void)pthread_kill(vm->thread, KICK_SIGNAL);
    assert_int_equal(pthread_join(vm->thread, NULL), 0);
    vm->run->immediate_exit = 0;
    vm->running = false;
}

void bare_vm_await(const struct bare_vm *vm, uint32_t stores)
{
    uint32_t goal = bare_vm_heartbeat(vm) + stores;

    while ((int32_t)(bare_vm_heartbeat(vm) - goal) < 0) {
        assert_false(__atomic_load_n(&vm->ended, __ATOMIC_ACQUIRE));
        (void)sched_yield();
    }
}
