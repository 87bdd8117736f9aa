/* SPDX-License-Identifier: MIT
 *
 * pageferry: a table of subcommands. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "vmm/base/log.h"

struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

static const struct subcommand subcommands[] = {
    {"run", cmd_run, "boot a guest: the built-in one, an ELF with PVH note, a flat image"},
    {"receive", cmd_receive, "wait for a guest that migrates here, and run it"},
    {"migrate", cmd_migrate, "move a running guest to a receiver"},
    {"inspect", cmd_inspect, "show and verify a snapshot"},
    {"ctl", cmd_ctl, "send a command to a running pageferry's control socket"},
    {"info", cmd_info, "show what this host's KVM offers"},
    {"selftest", cmd_selftest, "prove which dirty logs of this host can be trusted"},
    {"bench", cmd_bench, "measure dirty logging and the bitmap walk on this host"},
};

#define NSUBCOMMANDS (sizeof(subcommands) / sizeof(subcommands[0]))

static void print_help(void)
{
    printf("usage: pageferry COMMAND [OPTION…]\n\n"
           "A live-migration and dirty-logging workbench on /dev/kvm.\n\n");
    for (size_t i = 0; i < NSUBCOMMANDS; i++)
        printf("  %-8s  %s\n", subcommands[i].name, subcommands[i].summary);
    printf("\n`pageferry COMMAND --help` shows a command's options; each has a man page,\n"
           "e.g. pageferry-run(1). `pageferry --version` prints the version.\n");
}

/* A descriptor 0, 1 or 2 that we were started without would become a socket of ours, and console
 * output would go there. */
static void fill_standard_descriptors(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", O_RDWR); /* takes the lowest free one */
    }
}

/* What was printed and could not be written is a failure too. */
static int finish(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    log_error("standard output: %s", strerror(errno));
    return status ? status : 1;
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help();
        return finish(argc < 2 ? 2 : 0);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("pageferry %s\n", PAGEFERRY_VERSION);
        return finish(0);
    }
    for (size_t i = 0; i < NSUBCOMMANDS; i++) {
        if (strcmp(argv[1], subcommands[i].name) == 0)
            return finish(subcommands[i].run(argc - 1, argv + 1));
    }
    log_error("there is no command '%s': see pageferry --help", argv[1]);
    return 2;
}
