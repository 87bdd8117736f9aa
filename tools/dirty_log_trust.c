/* SPDX-License-Identifier: MIT */
#include "tools/dirty_log_trust.h"

#include <errno.h>
#include <string.h>

#include "vmm/base/log.h"
#include "vmm/dirty_ring.h"

void dirty_log_trust_init(struct dirty_log_trust *trust, dirty_log_trust_test *test,
                          const bool *cancelled)
{
    memset(trust, 0, sizeof(*trust));
    trust->test = test ? test : selftest_quick;
    trust->cancelled = cancelled;
}

/* *verdict is NULL where nothing speaks against the backend. */
static int find_broken(struct dirty_log_trust *trust, const struct dirty_log_vm *vm,
                       enum dirty_log_backend backend, const struct dirty_oracle_verdict **verdict,
                       struct error *err)
{
    struct dirty_oracle_verdict *answer = &trust->verdict[backend];
    uint32_t entries = backend == DIRTY_LOG_RING ? dirty_rings_entries(vm->rings) : 0;
    struct error why = {.text = ""};

    *verdict = NULL;
    if (!trust->tested[backend]) {
        int ret = trust->test(vm->kvm, backend, entries, trust->cancelled, answer, &why);

        if (ret == -ECANCELED)
            return error_set(err, ECANCELED, "cancelled");
        if (ret) {
            log_warning("the dirty log '%s' is used untested: %s", dirty_log_backend_name(backend),
                        why.text);
            return 0;
        }
        trust->tested[backend] = true;
    }
    if (answer->result == DIRTY_ORACLE_BROKEN)
        *verdict = answer;
    return 0;
}

int dirty_log_trust_choose(struct dirty_log_trust *trust, const struct dirty_log_vm *vm,
                           bool chosen, enum dirty_log_backend *backend, struct error *err)
{
    const char *name = dirty_log_backend_name(*backend);
    const struct dirty_oracle_verdict *broken;
    int ret = find_broken(trust, vm, *backend, &broken, err);

    if (ret || !broken)
        return ret;
    if (chosen) {
        log_warning("the dirty log '%s' loses pages on this host, and is used because it was asked "
                    "for: %.300s",
                    name, broken->why);
        return 0;
    }
    log_warning("the dirty log '%s' loses pages on this host: %.300s", name, broken->why);
    /* get is there in every kernel, but not beside a ring. */
    if (*backend == DIRTY_LOG_CLEAR) {
        ret = find_broken(trust, vm, DIRTY_LOG_GET, &broken, err);
        if (ret)
            return ret;
        if (!broken) {
            log_info("the dirty log 'get' is used instead");
            *backend = DIRTY_LOG_GET;
            return 0;
        }
    }
    return error_set(err, EIO,
                     "this host's dirty log is broken ('pageferry selftest' shows it), and a guest "
                     "would lose memory: --dirty-log %s uses it all the same",
                     name);
}
