/* SPDX-License-Identifier: MIT */
#include "vmm/x86/debug_probe.h"

#include <errno.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/memory.h"
#include "vmm/x86/debug.h"

/* Real mode, in the first pages: the vectors, the code, and a halt for every vector. */
#define NPAGES       4
#define CODE_GPA     0x1000u
#define HANDLER_GPA  0x1100u
#define IDENTITY_GPA 0xfffbc000ull
#define TSS_GPA      0xfffbd000ull
/* A VM without interrupt controllers leaves KVM_RUN when it halts: any of these ends the trial. */
#define MAX_EXITS 8

struct trial {
    int vm_fd, vcpu_fd;
    struct memory memory;
    struct kvm_run *run;
};

static void close_trial(struct trial *trial, const struct kvm *kvm)
{
    if (trial->run)
        (void)munmap(trial->run, kvm->run_bytes);
    if (trial->vcpu_fd >= 0)
        (void)close(trial->vcpu_fd);
    if (trial->vm_fd >= 0)
        (void)close(trial->vm_fd);
    memory_destroy(&trial->memory);
}

static int make_vcpu(struct trial *trial, const struct kvm *kvm, struct error *err)
{
    struct kvm_regs regs = {.rip = CODE_GPA, .rflags = 2};
    struct kvm_sregs sregs;
    void *run;
    int ret = KVM_IOCTL(trial->vm_fd, KVM_CREATE_VCPU, NULL, err);

    if (ret < 0)
        return ret;
    trial->vcpu_fd = ret;
    run = mmap(NULL, kvm->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, trial->vcpu_fd, 0);
    if (run == MAP_FAILED)
        return error_set(err, errno, "mmap: %s", strerror(errno));
    trial->run = run;
    ret = KVM_IOCTL(trial->vcpu_fd, KVM_GET_SREGS, &sregs, err);
    sregs.cs.base = 0;
    sregs.cs.selector = 0;
    if (!ret)
        ret = KVM_IOCTL(trial->vcpu_fd, KVM_SET_SREGS, &sregs, err);
    return ret ? ret : KVM_IOCTL(trial->vcpu_fd, KVM_SET_REGS, &regs, err);
}

static int open_trial(struct trial *trial, const struct kvm *kvm, struct error *err)
{
    static const uint8_t code[] = {0x90, DEBUG_INT3, 0xf4}; /* nop; int3; hlt */
    static const uint8_t halt[] = {0xf4};
    const struct memory_region range = {.gpa = 0, .npages = NPAGES};
    uint64_t identity_map = IDENTITY_GPA;
    int ret;

    memset(trial, 0, sizeof(*trial));
    trial->vm_fd = trial->vcpu_fd = -1;
    ret = memory_create(&trial->memory, &range, 1, MEMORY_ANON, err);
    if (ret)
        return ret;
    for (gpa_t vector = 0; vector < 32; vector++) {
        const uint16_t entry[2] = {HANDLER_GPA, 0};

        (void)memory_write(&trial->memory, vector * sizeof(entry), entry, sizeof(entry));
    }
    (void)memory_write(&trial->memory, CODE_GPA, code, sizeof(code));
    (void)memory_write(&trial->memory, HANDLER_GPA, halt, sizeof(halt));
    ret = KVM_IOCTL(kvm->fd, KVM_CREATE_VM, NULL, err);
    if (ret < 0)
        return ret;
    trial->vm_fd = ret;
    ret = KVM_IOCTL(trial->vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity_map, err);
    if (!ret)
        ret = KVM_IOCTL(trial->vm_fd, KVM_SET_TSS_ADDR, (void *)(uintptr_t)TSS_GPA, err);
    if (!ret)
        ret = memory_set_slots(&trial->memory, trial->vm_fd, false, err);
    return ret ? ret : make_vcpu(trial, kvm, err);
}

/* Does the guest stop for the debugger before it halts? */
static bool stops(const struct trial *trial)
{
    for (unsigned i = 0; i < MAX_EXITS; i++) {
        if (ioctl(trial->vcpu_fd, KVM_RUN, 0) == 0)
            return trial->run->exit_reason == KVM_EXIT_DEBUG;
        if (errno != EINTR && errno != EAGAIN)
            return false;
    }
    return false;
}

static int try_control(const struct kvm *kvm, const struct debug_control *control, bool *works,
                       struct error *err)
{
    struct trial trial;
    int ret = open_trial(&trial, kvm, err);

    if (!ret)
        ret = debug_control(trial.vcpu_fd, control, err);
    if (!ret)
        *works = stops(&trial);
    close_trial(&trial, kvm);
    return ret;
}

int debug_probe(const struct kvm *kvm, struct debug_support *support, struct error *err)
{
    const struct debug_hardware at_int3[DEBUG_NHARDWARE] = {
        {.used = true, .kind = DEBUG_POINT_EXECUTE, .address = CODE_GPA + 1, .bytes = 1}};
    const struct debug_control software = {.software = true}, hardware = {.hardware = at_int3};
    int flags = ioctl(kvm->fd, KVM_CHECK_EXTENSION, KVM_CAP_SET_GUEST_DEBUG2);
    int ret;

    memset(support, 0, sizeof(*support));
    support->hold_irq = flags > 0 && flags & KVM_GUESTDBG_BLOCKIRQ;
    ret = try_control(kvm, &software, &support->software, err);
    if (!ret)
        ret = try_control(kvm, &hardware, &support->hardware, err);
    if (ret)
        error_prefix(err, "a trial of breakpoints");
    return ret;
}
