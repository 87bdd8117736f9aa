/* SPDX-License-Identifier: MIT
 *
 * pageferry bench bitmap: what the walk over a dirty bitmap costs. */
#include "tools/commands.h"
#include "tools/server.h"
#include "vmm/base/log.h"

int bench_bitmap(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    log_error("bench bitmap: nothing is measured yet");
    return SERVER_EXIT_FAILURE;
}
