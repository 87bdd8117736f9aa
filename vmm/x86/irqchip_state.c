/* SPDX-License-Identifier: MIT
 *
 * KVM_GET_IRQCHIP and KVM_GET_PIT2 (api.rst 4.26, 4.98), field by field. */
#include "vmm/x86/irqchip_state.h"

#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>

#include "vmm/kvm.h"

#define PIT_CHANNELS   3
#define PIC_ALL_MASKED 0xff

#define PIC(member, name) STATE_FIELD(struct kvm_pic_state, member, name)
static const struct state_field pic_fields[] = {
    PIC(last_irr, "last-irr"),
    PIC(irr, "irr"),
    PIC(imr, "imr"),
    PIC(isr, "isr"),
    PIC(priority_add, "priority-add"),
    PIC(irq_base, "irq-base"),
    PIC(read_reg_select, "read-reg-select"),
    PIC(poll, "poll"),
    PIC(special_mask, "special-mask"),
    PIC(init_state, "init-state"),
    PIC(auto_eoi, "auto-eoi"),
    PIC(rotate_on_auto_eoi, "rotate-on-auto-eoi"),
    PIC(special_fully_nested_mode, "special-fully-nested-mode"),
    PIC(init4, "init4"),
    PIC(elcr, "elcr"),
    PIC(elcr_mask, "elcr-mask"),
};

#define IOAPIC(member, name) STATE_FIELD(struct kvm_ioapic_state, member, name)
static const struct state_field ioapic_fields[] = {
    IOAPIC(base_address, "base-address"),
    IOAPIC(ioregsel, "ioregsel"),
    IOAPIC(id, "id"),
    IOAPIC(irr, "irr"),
    STATE_ARRAY(struct kvm_ioapic_state, redirtbl, "redirection-table"),
};

/* Not count_load_time: it is this host's clock, and KVM_SET_PIT2 starts the count anew anyway. */
#define CHANNEL(member, name) STATE_FIELD(struct kvm_pit_channel_state, member, name)
static const struct state_field channel_fields[] = {
    CHANNEL(count, "count"),
    CHANNEL(latched_count, "latched-count"),
    CHANNEL(count_latched, "count-latched"),
    CHANNEL(status_latched, "status-latched"),
    CHANNEL(status, "status"),
    CHANNEL(read_state, "read-state"),
    CHANNEL(write_state, "write-state"),
    CHANNEL(write_latch, "write-latch"),
    CHANNEL(rw_mode, "rw-mode"),
    CHANNEL(mode, "mode"),
    CHANNEL(bcd, "bcd"),
    CHANNEL(gate, "gate"),
};

static const struct {
    const char *node;
    uint32_t id;
    const struct state_field *fields;
    size_t nfields;
} chips[] = {
    {"pic-master", KVM_IRQCHIP_PIC_MASTER, pic_fields, STATE_COUNT(pic_fields)},
    {"pic-slave", KVM_IRQCHIP_PIC_SLAVE, pic_fields, STATE_COUNT(pic_fields)},
    {"ioapic", KVM_IRQCHIP_IOAPIC, ioapic_fields, STATE_COUNT(ioapic_fields)},
};

static void channel_name(unsigned channel, char *name, size_t name_bytes)
{
    (void)snprintf(name, name_bytes, "channel-%u", channel);
}

static int save_pit(int vm_fd, struct state_writer *writer, struct error *err)
{
    struct kvm_pit_state2 pit;
    int ret = KVM_IOCTL(vm_fd, KVM_GET_PIT2, &pit, err);

    if (ret)
        return ret;
    state_begin_node(writer, "pit");
    for (unsigned i = 0; i < PIT_CHANNELS; i++) {
        char name[16];

        channel_name(i, name, sizeof(name));
        state_put_packed(writer, name, channel_fields, STATE_COUNT(channel_fields),
                         &pit.channels[i]);
    }
    state_put_u32(writer, "flags", pit.flags);
    state_end_node(writer);
    return 0;
}

static int load_pit(int vm_fd, struct state_reader *root, struct error *err)
{
    struct kvm_pit_state2 pit;
    struct state_reader node;
    uint32_t flags = 0;
    int ret = state_open_node(root, "pit", &node, err);

    memset(&pit, 0, sizeof(pit));
    for (unsigned i = 0; !ret && i < PIT_CHANNELS; i++) {
        char name[16];

        channel_name(i, name, sizeof(name));
        ret = state_get_packed(&node, name, channel_fields, STATE_COUNT(channel_fields),
                               &pit.channels[i], err);
    }
    if (!ret)
        ret = state_get_u32(&node, "flags", &flags, err);
    if (!ret)
        ret = state_close(&node, err);
    if (ret)
        return ret;
    pit.flags = flags;
    return KVM_IOCTL(vm_fd, KVM_SET_PIT2, &pit, err);
}

int irqchip_reset(int vm_fd, struct error *err)
{
    static const uint32_t pics[] = {KVM_IRQCHIP_PIC_MASTER, KVM_IRQCHIP_PIC_SLAVE};
    int ret = 0;

    for (size_t i = 0; !ret && i < STATE_COUNT(pics); i++) {
        struct kvm_irqchip chip = {.chip_id = pics[i]};

        ret = KVM_IOCTL(vm_fd, KVM_GET_IRQCHIP, &chip, err);
        if (ret)
            return ret;
        chip.chip.pic.imr = PIC_ALL_MASKED;
        ret = KVM_IOCTL(vm_fd, KVM_SET_IRQCHIP, &chip, err);
    }
    return ret;
}

int irqchip_state_save(int vm_fd, struct state_writer *writer, struct error *err)
{
    int ret = save_pit(vm_fd, writer, err);

    for (size_t i = 0; !ret && i < STATE_COUNT(chips); i++) {
        struct kvm_irqchip chip = {.chip_id = chips[i].id};

        ret = KVM_IOCTL(vm_fd, KVM_GET_IRQCHIP, &chip, err);
        if (ret)
            return ret;
        state_begin_node(writer, chips[i].node);
        state_put_fields(writer, chips[i].fields, chips[i].nfields, &chip.chip);
        state_end_node(writer);
    }
    return ret;
}

int irqchip_state_load(int vm_fd, struct state_reader *root, struct error *err)
{
    int ret = 0;

    for (size_t i = 0; !ret && i < STATE_COUNT(chips); i++) {
        struct kvm_irqchip chip;
        struct state_reader node;

        memset(&chip, 0, sizeof(chip));
        chip.chip_id = chips[i].id;
        ret = state_open_node(root, chips[i].node, &node, err);
        if (!ret)
            ret = state_get_fields(&node, chips[i].fields, chips[i].nfields, &chip.chip, err);
        if (!ret)
            ret = state_close(&node, err);
        if (!ret)
            ret = KVM_IOCTL(vm_fd, KVM_SET_IRQCHIP, &chip, err);
    }
    if (!ret)
        ret = load_pit(vm_fd, root, err);
    return ret;
}
