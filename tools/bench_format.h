/* SPDX-License-Identifier: MIT
 *
 * How a bench prints its results. */
#ifndef TOOLS_BENCH_FORMAT_H
#define TOOLS_BENCH_FORMAT_H

enum bench_format { BENCH_FORMAT_TEXT, BENCH_FORMAT_CSV, BENCH_FORMAT_JSON };

#endif
