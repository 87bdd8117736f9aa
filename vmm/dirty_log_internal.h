/* SPDX-License-Identifier: MIT
 *
 * What a dirty-logging backend is. Internal to dirty_log*.c. */
#ifndef VMM_DIRTY_LOG_INTERNAL_H
#define VMM_DIRTY_LOG_INTERNAL_H

#include "vmm/dirty_log.h"

struct dirty_log;

struct dirty_log_ops {
    const char *name;
    bool (*supported)(const struct kvm *kvm);
    /* Chooses the mechanism for the whole VM, before any slot logs. */
    int (*choose)(struct dirty_log *log, struct error *err);
    /* A sync begins: what is done once for all slots. May be NULL. */
    int (*begin)(struct dirty_log *log, struct error *err);
    /* ORs what the kernel has logged for a slot into pending, or, where `replace`, puts it in place
     * of what is there; *npages gets how many bits pending has then. */
    int (*fetch)(struct dirty_log *log, unsigned slot, bool replace, uint64_t *npages,
                 struct error *err);
    /* Re-protects the pages in words, if any, which begin at first_page. NULL where they are
     * re-protected already. */
    int (*protect)(struct dirty_log *log, unsigned slot, uint64_t first_page, uint64_t npages,
                   uint64_t *words, struct error *err);
    /* Logging is off again. May be NULL. */
    void (*end)(struct dirty_log *log);
};

extern const struct dirty_log_ops dirty_log_get_ops;
extern const struct dirty_log_ops dirty_log_clear_ops;
extern const struct dirty_log_ops dirty_log_ring_ops;

/* Only the engine's thread touches it. */
struct dirty_log_slot {
    bool logged;
    uint64_t npages;
    size_t nwords;
    uint64_t *pending; /* dirty, not claimed yet; claimed words belong to who claimed them */
    bool in_order; /* since the last sync words [0, claimed_end) were claimed, one after another */
    size_t claimed_end; /* no claimed word from here on */
    uint64_t *claimed;  /* where not in order: a bit for each word of pending */
    bool untouched;     /* no sync yet: all pages not claimed are pending, whatever pending holds */
};

int dirty_log_slot_init(struct dirty_log_slot *slot, uint64_t npages, struct error *err);
void dirty_log_slot_free(struct dirty_log_slot *slot);

/* Hands out words: they hold what is pending, and nothing is pending in them from then on. */
uint64_t *dirty_log_slot_claim(struct dirty_log_slot *slot, size_t first_word, size_t nwords);

/* Takes back what was handed out. True where that was all: then pending holds nothing, and its
 * words are whatever their last holder left. */
bool dirty_log_slot_renew(struct dirty_log_slot *slot);

struct dirty_log {
    const struct dirty_log_ops *ops;
    struct dirty_log_vm vm;
    struct dirty_log_options options;
    struct dirty_log_slot slot[MEMORY_MAX_REGIONS];
    uint64_t *scratch; /* words of the largest slot, for ioctls */
    struct dirty_log_cost cost;
    int failed;       /* first -errno of an ioctl: from then on nothing can be trusted */
    struct error why; /* and its line */
};

/* An ioctl on the VM, counted. */
int dirty_log_ioctl(struct dirty_log *log, unsigned long request, const char *name, void *argument,
                    struct error *err);
void dirty_log_count_ioctl(struct dirty_log *log, uint64_t ns);

/* KVM_GET_DIRTY_LOG (api.rst 4.8) of one slot into pending, as `fetch`. Whether that re-protects is
 * the VM's setting. */
int dirty_log_get_slot(struct dirty_log *log, unsigned slot, bool replace, uint64_t *npages,
                       struct error *err);

/* Sets KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2 (api.rst 7.18) to flags, 0 = automatic. The setting is
 * the VM's and must not change while a slot logs. */
int dirty_log_set_manual(const struct dirty_log *log, uint64_t flags, struct error *err);

#endif
