/* SPDX-License-Identifier: MIT
 *
 * What `run` and `receive` let a user say about the host's side of a machine: --backing,
 * --dirty-log and --trace. */
#ifndef TOOLS_MACHINE_HOST_OPTIONS_H
#define TOOLS_MACHINE_HOST_OPTIONS_H

#include "vmm/base/error.h"
#include "vmm/kvm.h"
#include "vmm/machine.h"

/* backing as memory_backing_parse() takes it; dirty_log is "bitmap", "ring" or "ring:ENTRIES".
 * -EINVAL with what can be written, -ENOTSUP where this host has no dirty ring. A ring is announced
 * in the log, with what is known against it on this host. */
int machine_host_options_parse(const struct kvm *kvm, const char *backing, const char *dirty_log,
                               struct machine_host *host, struct error *err);

/* `what` is "exits"; NULL: nothing is traced. -EINVAL with what can be written. */
int machine_host_options_trace(const char *what, struct machine_host *host, struct error *err);

#endif
