/* SPDX-License-Identifier: MIT
 *
 * pageferry bench: a table of benches, each with options of its own. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/server.h"
#include "vmm/base/log.h"

struct bench {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

static const struct bench benches[] = {
    {"bitmap", bench_bitmap, "walking a dirty bitmap: by byte, by word, and as pageferry does"},
    {"dirty-log", bench_dirty_log, "a pass over the dirty log, by the number of dirty pages"},
    {"migrate", bench_migrate, "whole migrations, beside a raw copy of the same size"},
    {"pause", bench_pause, "pausing busy vCPUs together, beside one after the other"},
};

#define NBENCHES (sizeof(benches) / sizeof(benches[0]))

static void print_help(void)
{
    printf("usage: pageferry bench NAME [OPTION…]\n\n"
           "Measures one thing on this host.\n\n");
    for (size_t i = 0; i < NBENCHES; i++)
        printf("  %-10s  %s\n", benches[i].name, benches[i].summary);
    printf("\n`pageferry bench NAME --help` shows a bench's options; see pageferry-bench(1).\n");
}

int cmd_bench(int argc, char **argv)
{
    if (argc < 2) {
        log_error("bench needs the name of one: see pageferry bench --help");
        return SERVER_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return 0;
    }
    for (size_t i = 0; i < NBENCHES; i++) {
        if (strcmp(benches[i].name, argv[1]) == 0)
            return benches[i].run(argc - 1, argv + 1);
    }
    log_error("there is no bench '%s': see pageferry bench --help", argv[1]);
    return SERVER_EXIT_USAGE;
}
