/* SPDX-License-Identifier: MIT
 *
 * The ELF notes: where a PVH loader enters (Xen public/elfnote.h), and that this image wants the
 * device tree. Names are padded to four bytes, as ELF notes are. */
#include <stdint.h>

#include "guest/abi.h"

#define XEN_ELFNOTE_PHYS32_ENTRY 18
#define PADDED(bytes)            (((bytes) + 3) / 4 * 4)

void pvh_start(void); /* start.S; 32-bit code */

static const struct {
    uint32_t name_bytes, value_bytes, type;
    char name[PADDED(sizeof("Xen"))];
    void (*entry)(void);
} __attribute__((packed)) note_pvh __attribute__((section(".note.pvh"), aligned(4), used)) = {
    sizeof("Xen"), sizeof(uint64_t), XEN_ELFNOTE_PHYS32_ENTRY, "Xen", pvh_start,
};

static const struct {
    uint32_t name_bytes, value_bytes, type;
    char name[PADDED(sizeof(GUEST_NOTE_OWNER))];
    uint32_t version;
} __attribute__((packed)) note_tree __attribute__((section(".note.pvh"), aligned(4), used)) = {
    sizeof(GUEST_NOTE_OWNER), sizeof(uint32_t), GUEST_NOTE_DEVICE_TREE, GUEST_NOTE_OWNER, 1,
};
