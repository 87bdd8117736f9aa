/* SPDX-License-Identifier: MIT
 *
 * The surface of workload fb: 1920 x 1080 pixels of four bytes, in cells of 8 x 18 pixels as a text
 * console has them. A cell is drawn as a whole; each drawing is its next generation, and every word
 * of it follows from cell and generation, so that what must be on the screen is known without a
 * second copy of it. */
#ifndef GUEST_WORKLOADS_FB_SURFACE_H
#define GUEST_WORKLOADS_FB_SURFACE_H

#include <stdbool.h>
#include <stdint.h>

#define FB_WIDTH       1920u
#define FB_HEIGHT      1080u
#define FB_PIXEL_BYTES 4u
#define FB_PITCH       (FB_WIDTH * FB_PIXEL_BYTES)
#define FB_BYTES       (FB_PITCH * FB_HEIGHT)

#define FB_CELL_WIDTH  8u
#define FB_CELL_HEIGHT 18u
#define FB_COLUMNS     (FB_WIDTH / FB_CELL_WIDTH)
#define FB_ROWS        (FB_HEIGHT / FB_CELL_HEIGHT)
#define FB_CELLS       (FB_COLUMNS * FB_ROWS)

struct fb_surface {
    uint64_t base;        /* of the frame buffer */
    uint32_t *generation; /* of each of FB_CELLS cells, row by row */
};

/* Where a cell differs first: pixel row, 64-bit word in it. */
struct fb_fault {
    unsigned row, word;
    uint64_t found, expected;
};

/* Draws a cell as its `generation`, whatever the table says. */
void fb_cell_draw(const struct fb_surface *surface, unsigned cell, uint32_t generation);

/* Is the cell what its generation in the table drew? `fault` is filled where it is not. */
bool fb_cell_ok(const struct fb_surface *surface, unsigned cell, struct fb_fault *fault);

#endif
