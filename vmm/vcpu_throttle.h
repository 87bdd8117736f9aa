/* SPDX-License-Identifier: MIT
 *
 * Slows vCPUs: each runs for a slice, then rests for the rest of its period. A vCPU that rests is
 * parked, so a pause waits for none of them. */
#ifndef VMM_VCPU_THROTTLE_H
#define VMM_VCPU_THROTTLE_H

#include "vmm/vcpu.h"

#define VCPU_THROTTLE_MAX_PERCENT 99u

/* percent[i], at most VCPU_THROTTLE_MAX_PERCENT, is the share of time that is taken from vCPU i; 0:
 * full speed, at once. Not from a vCPU's thread, and from one thread at a time. Where the thread
 * that ends the slices cannot be had, -errno and nothing is slowed. */
int vcpu_throttle_set(struct vcpu_set *set, const unsigned *percent, struct error *err);

/* Under the set's lock: a vCPU that was stopped at the end of its slice starts to rest; one that
 * may run begins a slice. */
void vcpu_throttle_rest(struct vcpu *vcpu, uint64_t now_ns);
void vcpu_throttle_begin_slice(struct vcpu *vcpu, uint64_t now_ns);

#endif
