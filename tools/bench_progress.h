/* SPDX-License-Identifier: MIT
 *
 * What a bench is at: a line on the terminal that is written over. */
#ifndef TOOLS_BENCH_PROGRESS_H
#define TOOLS_BENCH_PROGRESS_H

/* Nothing happens where stderr is no terminal. */
__attribute__((format(printf, 1, 2))) void bench_progress(const char *format, ...);
/* Before anything else is printed. */
void bench_progress_end(void);

#endif
