/* SPDX-License-Identifier: MIT
 *
 * The subcommands. Each gets its own argv (argv[0] is its name) and returns the process's exit
 * status. */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

int cmd_run(int argc, char **argv);
int cmd_receive(int argc, char **argv);
int cmd_migrate(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_bench(int argc, char **argv);

/* The benches of `pageferry bench`, alike. */
int bench_bitmap(int argc, char **argv);
int bench_dirty_log(int argc, char **argv);
int bench_migrate(int argc, char **argv);
int bench_pause(int argc, char **argv);

#endif
