/* SPDX-License-Identifier: MIT */
#include "tools/dirty_log_trust.h"

#include <errno.h>
#include <string.h>

#include "vmm/base/log.h"
#include "vmm/dirty_ring.h"

void dirty_log_trust_init(struct dirty_log_trust *trust, dirty_log_trust_test *test)
{
    memset(trust, 0, sizeof(*trust));
    trust->test = test ? test : selftest_quick;
}

/* NULL where nothing speaks against the backend. */
static const struct dirty_oracle_verdict *broken(struct dirty_log_trust *trust,
                                                 const struct dirty_log_vm *vm,
                                                 enum dirty_log_backend backend)
{
    struct dirty_oracle_verdict *verdict = &trust->verdict[backend];
    uint32_t entries = backend == DIRTY_LOG_RING ? dirty_rings_entries(vm->rings) : 0;
    struct error err = {.text = ""};

    if (!trust->tested[backend]) {
        if (trust->test(vm->kvm, backend, entries, verdict, &err)) {
            log_warning("the dirty log '%s' is used untested: %s", dirty_log_backend_name(backend),
                        err.text);
            return NULL;
        }
        trust->tested[backend] = true;
    }
    return verdict->result == DIRTY_ORACLE_BROKEN ? verdict : NULL;
}

int dirty_log_trust_choose(struct dirty_log_trust *trust, const struct dirty_log_vm *vm,
                           bool chosen, enum dirty_log_backend *backend, struct error *err)
{
    const struct dirty_oracle_verdict *verdict = broken(trust, vm, *backend);
    const char *name = dirty_log_backend_name(*backend);

    if (!verdict)
        return 0;
    if (chosen) {
        log_warning("the dirty log '%s' loses pages on this host, and is used because it was asked "
                    "for: %.300s",
                    name, verdict->why);
        return 0;
    }
    log_warning("the dirty log '%s' loses pages on this host: %.300s", name, verdict->why);
    /* get is there in every kernel, but not beside a ring. */
    if (*backend == DIRTY_LOG_CLEAR && !broken(trust, vm, DIRTY_LOG_GET)) {
        log_info("the dirty log 'get' is used instead");
        *backend = DIRTY_LOG_GET;
        return 0;
    }
    return error_set(err, EIO,
                     "this host's dirty log is broken ('pageferry selftest' shows it), and a guest "
                     "would lose memory: --dirty-log %s uses it all the same",
                     name);
}
