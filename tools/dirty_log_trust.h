/* SPDX-License-Identifier: MIT
 *
 * Which dirty-log backend a migration uses: the user's choice, or the best one that this host was
 * not shown to break. The proof is selftest's short form, once for each backend and process. */
#ifndef TOOLS_DIRTY_LOG_TRUST_H
#define TOOLS_DIRTY_LOG_TRUST_H

#include <stdbool.h>

#include "tools/selftest.h"
#include "vmm/base/error.h"
#include "vmm/dirty_log.h"

typedef int dirty_log_trust_test(const struct kvm *kvm, enum dirty_log_backend backend,
                                 uint32_t ring_entries, const bool *cancelled,
                                 struct dirty_oracle_verdict *verdict, struct error *err);

/* One thread at a time. */
struct dirty_log_trust {
    dirty_log_trust_test *test;
    const bool *cancelled; /* atomic, or NULL */
    bool tested[DIRTY_LOG_NBACKENDS];
    struct dirty_oracle_verdict verdict[DIRTY_LOG_NBACKENDS]; /* of those */
};

/* test: NULL = selftest_quick(). cancelled: whoever sets it (atomically) ends the test that is
 * being made; NULL: nobody. */
void dirty_log_trust_init(struct dirty_log_trust *trust, dirty_log_trust_test *test,
                          const bool *cancelled);

/* *backend is what would be used. One that is broken is kept, with a warning, where the user chose
 * it; else the next one is tried, and said. -EIO with a line where this VM has no other. A test
 * that could not be made is said, and trusted; one that was cancelled is -ECANCELED. */
int dirty_log_trust_choose(struct dirty_log_trust *trust, const struct dirty_log_vm *vm,
                           bool chosen, enum dirty_log_backend *backend, struct error *err);

#endif
