/* SPDX-License-Identifier: MIT
 *
 * BITMAP_UNROLL before a loop with a small constant count: write it out, at every level of
 * optimization. What the loop keeps in an array stays in registers then. */
#ifndef VMM_BASE_BITMAP_UNROLL_H
#define VMM_BASE_BITMAP_UNROLL_H

#if defined(__clang__)
#define BITMAP_UNROLL _Pragma("unroll")
#else
#define BITMAP_UNROLL _Pragma("GCC unroll 16")
#endif

#endif
