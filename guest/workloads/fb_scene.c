/* SPDX-License-Identifier: MIT
 *
 * The scenes. Places and sizes are in cells of the surface. */
#include "guest/workloads/fb_scene.h"

#include "guest/workloads/fb_surface.h"

/* The terminal: an editor's line is typed in one half of the screen, output scrolls in the other.
 */
#define LINE_X     8u
#define LINE_CELLS 80u
#define LINE_Y     4u
#define LINES      40u
#define TERMINAL_X 140u
#define TERMINAL_Y 20u

#define WINDOW_WIDTH  60u
#define WINDOW_HEIGHT 20u

/* The desktop's paces, in frames. */
#define TYPE_EVERY    6u
#define BLINK_EVERY   15u
#define SCROLL_EVERY  20u
#define WINDOW_EVERY  300u /* the window is dragged for the first WINDOW_FRAMES of these */
#define WINDOW_FRAMES 40u
#define FULL_EVERY    900u

_Static_assert(LINE_X + LINE_CELLS < FB_COLUMNS && LINE_Y + LINES <= FB_ROWS, "lines");
_Static_assert(TERMINAL_X + 80 <= FB_COLUMNS && TERMINAL_Y + 25 <= FB_ROWS, "terminal");

static unsigned cursor(uint64_t frame, struct fb_rect *rects)
{
    (void)frame;
    rects[0] = (struct fb_rect){LINE_X, LINE_Y + LINES - 1, 1, 1};
    return 1;
}

static unsigned type(uint64_t frame, struct fb_rect *rects)
{
    rects[0] = (struct fb_rect){LINE_X + (unsigned)(frame % LINE_CELLS),
                                LINE_Y + (unsigned)(frame / LINE_CELLS % LINES), 2, 1};
    return 1;
}

static unsigned scroll(uint64_t frame, struct fb_rect *rects)
{
    (void)frame;
    rects[0] = (struct fb_rect){TERMINAL_X, TERMINAL_Y, 80, 25};
    return 1;
}

/* 0, 1 … range, range - 1 … 0, 1 …: where something is that bounces between two walls. */
static unsigned bounce(uint64_t step, unsigned range)
{
    unsigned at = (unsigned)(step % (2 * (uint64_t)range));

    return at < range ? at : 2 * range - at;
}

static unsigned window(uint64_t frame, struct fb_rect *rects)
{
    const unsigned range_x = FB_COLUMNS - WINDOW_WIDTH, range_y = FB_ROWS - WINDOW_HEIGHT;
    unsigned from_x = bounce(frame, range_x), from_y = bounce(frame, range_y);
    unsigned x = bounce(frame + 1, range_x), y = bounce(frame + 1, range_y);

    rects[0] = (struct fb_rect){x, y, WINDOW_WIDTH, WINDOW_HEIGHT};
    /* The column and the row that it left. */
    rects[1] =
        (struct fb_rect){x > from_x ? from_x : from_x + WINDOW_WIDTH - 1, from_y, 1, WINDOW_HEIGHT};
    rects[2] =
        (struct fb_rect){from_x, y > from_y ? from_y : from_y + WINDOW_HEIGHT - 1, WINDOW_WIDTH, 1};
    return 3;
}

static unsigned full(uint64_t frame, struct fb_rect *rects)
{
    (void)frame;
    rects[0] = (struct fb_rect){0, 0, FB_COLUMNS, FB_ROWS};
    return 1;
}

static unsigned desktop(uint64_t frame, struct fb_rect *rects)
{
    uint64_t in_drag = frame % WINDOW_EVERY;
    unsigned n = 0;

    if (frame % FULL_EVERY == FULL_EVERY - 1)
        return full(frame, rects);
    if (frame % BLINK_EVERY == 0)
        n += cursor(frame, rects + n);
    if (frame % TYPE_EVERY == 0)
        n += type(frame / TYPE_EVERY, rects + n);
    if (frame % SCROLL_EVERY == 0)
        n += scroll(frame, rects + n);
    if (in_drag < WINDOW_FRAMES)
        n += window(frame / WINDOW_EVERY * WINDOW_FRAMES + in_drag, rects + n);
    return n;
}

unsigned fb_scene_frame(enum fb_scene scene, uint64_t frame, struct fb_rect *rects)
{
    switch (scene) {
    case FB_SCENE_CURSOR:
        return cursor(frame, rects);
    case FB_SCENE_TYPE:
        return type(frame, rects);
    case FB_SCENE_SCROLL:
        return scroll(frame, rects);
    case FB_SCENE_WINDOW:
        return window(frame, rects);
    case FB_SCENE_FULL:
        return full(frame, rects);
    default:
        return desktop(frame, rects);
    }
}
