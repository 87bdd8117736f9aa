/* SPDX-License-Identifier: MIT
 *
 * Cells of the surface: drawing and judging them. */
#include "guest/workloads/fb_surface.h"

#include "guest/user/content.h"

#define CELL_ROW_WORDS (FB_CELL_WIDTH * FB_PIXEL_BYTES / 8)

_Static_assert(FB_WIDTH % FB_CELL_WIDTH == 0 && FB_HEIGHT % FB_CELL_HEIGHT == 0, "whole cells");

static volatile uint64_t *cell_row(const struct fb_surface *surface, unsigned cell, unsigned row)
{
    uint64_t y = cell / FB_COLUMNS * FB_CELL_HEIGHT + row;
    uint64_t x = cell % FB_COLUMNS * FB_CELL_WIDTH;

    return (volatile uint64_t *)(surface->base + y * FB_PITCH + x * FB_PIXEL_BYTES);
}

static uint64_t cell_base(unsigned cell, uint32_t generation)
{
    return content_mix((uint64_t)(cell + 1) << 32 | generation);
}

void fb_cell_draw(const struct fb_surface *surface, unsigned cell, uint32_t generation)
{
    uint64_t base = cell_base(cell, generation);

    for (unsigned row = 0; row < FB_CELL_HEIGHT; row++) {
        volatile uint64_t *words = cell_row(surface, cell, row);

        for (unsigned i = 0; i < CELL_ROW_WORDS; i++)
            words[i] = content_word(base, row * CELL_ROW_WORDS + i);
    }
}

bool fb_cell_ok(const struct fb_surface *surface, unsigned cell, struct fb_fault *fault)
{
    uint64_t base = cell_base(cell, surface->generation[cell]);

    for (unsigned row = 0; row < FB_CELL_HEIGHT; row++) {
        const volatile uint64_t *words = cell_row(surface, cell, row);

        for (unsigned i = 0; i < CELL_ROW_WORDS; i++) {
            uint64_t found = words[i];
            uint64_t expected = content_word(base, row * CELL_ROW_WORDS + i);

            if (found != expected) {
                *fault = (struct fb_fault){row, i, found, expected};
                return false;
            }
        }
    }
    return true;
}
