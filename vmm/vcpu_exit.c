/* SPDX-License-Identifier: MIT
 *
 * What a vCPU leaves KVM_RUN for (api.rst section 5, "The kvm_run structure"). Nothing that a guest
 * can cause hangs: what cannot be handled ends the guest with a reason. */
#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>

#include "vmm/base/log.h"
#include "vmm/vcpu.h"
#include "vmm/x86/registers.h"

static void handle_io(struct vcpu *vcpu)
{
    struct kvm_run *run = vcpu->run;
    uint8_t *data = (uint8_t *)run + run->io.data_offset;

    for (uint32_t i = 0; i < run->io.count; i++)
        bus_access(vcpu->set->bus, BUS_PORT, run->io.port, data + (size_t)i * run->io.size,
                   run->io.size, run->io.direction == KVM_EXIT_IO_OUT);
}

static void describe_internal_error(const struct kvm_run *run, char *text, size_t text_bytes)
{
    size_t used;

    (void)snprintf(text, text_bytes, "KVM internal error, suberror %u%s", run->internal.suberror,
                   run->internal.suberror == KVM_INTERNAL_ERROR_EMULATION
                       ? " (an instruction that cannot be emulated)"
                       : "");
    if (run->internal.suberror != KVM_INTERNAL_ERROR_EMULATION || run->internal.ndata < 1 ||
        !(run->emulation_failure.flags & KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES))
        return;
    used = strlen(text);
    for (unsigned i = 0; i < run->emulation_failure.insn_size && i < 15 && used < text_bytes; i++) {
        (void)snprintf(text + used, text_bytes - used, "%s%02x", i ? " " : ", bytes ",
                       run->emulation_failure.insn_bytes[i]);
        used = strlen(text);
    }
}

static enum vcpu_end describe_system_event(const struct kvm_run *run, char *text, size_t text_bytes)
{
    switch (run->system_event.type) {
    case KVM_SYSTEM_EVENT_SHUTDOWN:
        (void)snprintf(text, text_bytes, "system event: shutdown");
        return VCPU_END_SHUTDOWN;
    case KVM_SYSTEM_EVENT_RESET:
        (void)snprintf(text, text_bytes, "system event: reset");
        return VCPU_END_RESET;
    default:
        (void)snprintf(text, text_bytes, "system event %u", run->system_event.type);
        return VCPU_END_ERROR;
    }
}

static enum vcpu_end describe_end(const struct kvm_run *run, char *text, size_t text_bytes)
{
    switch (run->exit_reason) {
    case KVM_EXIT_SHUTDOWN:
        (void)snprintf(text, text_bytes, "triple fault");
        return VCPU_END_SHUTDOWN;
    case KVM_EXIT_INTERNAL_ERROR:
        describe_internal_error(run, text, text_bytes);
        return VCPU_END_ERROR;
    case KVM_EXIT_FAIL_ENTRY:
        (void)snprintf(text, text_bytes, "VM entry failed, hardware reason 0x%" PRIx64,
                       (uint64_t)run->fail_entry.hardware_entry_failure_reason);
        return VCPU_END_ERROR;
    case KVM_EXIT_UNKNOWN:
        (void)snprintf(text, text_bytes, "unknown hardware exit 0x%" PRIx64,
                       (uint64_t)run->hw.hardware_exit_reason);
        return VCPU_END_ERROR;
    case KVM_EXIT_SYSTEM_EVENT:
        return describe_system_event(run, text, text_bytes);
    default:
        (void)snprintf(text, text_bytes, "unexpected KVM exit %u", run->exit_reason);
        return VCPU_END_ERROR;
    }
}

static void log_lines(char *text)
{
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        log_error("%s", line);
}

void vcpu_report_end(struct vcpu *vcpu, enum vcpu_end end, const char *what)
{
    char reason[ERROR_TEXT_BYTES], registers[REGISTERS_TEXT_BYTES];
    struct error err;
    uint64_t rip = 0;

    (void)registers_rip(vcpu->fd, &rip);
    (void)snprintf(reason, sizeof(reason), "vCPU %u at rip 0x%" PRIx64 ": %s", vcpu->index, rip,
                   what);
    log_error("%s", reason);
    if (registers_text(vcpu->fd, vcpu->index, registers, sizeof(registers), &err) == 0)
        log_lines(registers);
    else
        log_error("%s", err.text);
    vcpu->set->events.end(vcpu->set->events.opaque, vcpu->index, end, reason);
}

/* A ring that stays full though it is empty never lets this vCPU run again. A few empty harvests
 * are no sign: the engine may have been first. */
#define RING_STUCK_EXITS 1000

/* Harvests and goes on, whether this vCPU is about to be parked or not. */
static bool handle_ring_full(struct vcpu *vcpu)
{
    struct error err = {""};
    uint64_t found = 0;
    int ret = dirty_rings_harvest_cpu(vcpu->set->rings, vcpu->index, &found, &err);

    vcpu->stuck = found ? 0 : vcpu->stuck + 1;
    /* A log that lost pages fails by itself, at its next sync; the guest goes on as long as KVM
     * lets it. */
    if (ret == -EOVERFLOW || !ret) {
        if (vcpu->stuck < RING_STUCK_EXITS)
            return true;
        (void)error_set(&err, EIO,
                        "its dirty ring is empty, but KVM takes it for full and does not run it: "
                        "this host's dirty ring is broken (see pageferry selftest)");
    }
    vcpu_report_end(vcpu, VCPU_END_ERROR, err.text);
    return false;
}

/* Back into KVM_RUN in any case: one that is held comes out of it at once, and parks there. */
static void handle_debug(struct vcpu *vcpu)
{
    const struct vcpu_debug_exit exit = {.exception = vcpu->run->debug.arch.exception,
                                         .pc = vcpu->run->debug.arch.pc,
                                         .dr6 = vcpu->run->debug.arch.dr6};

    if (vcpu->set->events.debug(vcpu->set->events.opaque, vcpu->index, &exit))
        vcpu_hold(vcpu);
}

bool vcpu_handle_exit(struct vcpu *vcpu)
{
    struct kvm_run *run = vcpu->run;
    char what[ERROR_TEXT_BYTES / 2];
    enum vcpu_end end;

    switch (run->exit_reason) {
    case KVM_EXIT_IO:
        handle_io(vcpu);
        return true;
    case KVM_EXIT_MMIO:
        bus_access(vcpu->set->bus, BUS_MMIO, run->mmio.phys_addr, run->mmio.data, run->mmio.len,
                   run->mmio.is_write);
        return true;
    case KVM_EXIT_INTR:
        return true;
    case KVM_EXIT_DIRTY_RING_FULL:
        return handle_ring_full(vcpu);
    case KVM_EXIT_DEBUG:
        if (vcpu->set->events.debug) {
            handle_debug(vcpu);
            return true;
        }
        __attribute__((fallthrough));
    default:
        end = describe_end(run, what, sizeof(what));
        vcpu_report_end(vcpu, end, what);
        return false;
    }
}
