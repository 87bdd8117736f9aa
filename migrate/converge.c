/* SPDX-License-Identifier: MIT */
#include "migrate/converge.h"

#include "vmm/base/clock.h"

uint64_t converge_predict_ns(const struct converge_input *input)
{
    double copy_ns;

    if (input->pending_bytes == 0)
        return input->fixed_ns;
    if (input->bandwidth == 0)
        return UINT64_MAX;
    copy_ns = (double)input->pending_bytes / (double)input->bandwidth * (double)CLOCK_NS_PER_SEC;
    if (copy_ns >= (double)(UINT64_MAX / 2) || input->fixed_ns > UINT64_MAX / 2)
        return UINT64_MAX;
    return input->fixed_ns + (uint64_t)copy_ns;
}

enum converge_decision converge_decide(const struct converge_input *input)
{
    if (input->pending_bytes == 0 || converge_predict_ns(input) <= input->limit_ns)
        return CONVERGE_SWITCH_OVER;
    return CONVERGE_ANOTHER_ROUND;
}
