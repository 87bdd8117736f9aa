/* SPDX-License-Identifier: MIT
 *
 * What a screen redraws from frame to frame. A scene is a function of the frame's number: it keeps
 * no state. */
#ifndef GUEST_WORKLOADS_FB_SCENE_H
#define GUEST_WORKLOADS_FB_SCENE_H

#include <stdint.h>

/* In the order of FB_SCENE_NAMES. */
enum fb_scene {
    FB_SCENE_DESKTOP, /* all of the following, each at a pace of its own */
    FB_SCENE_CURSOR,  /* one cell that blinks */
    FB_SCENE_TYPE,    /* a line that is being typed: one cell, and the cursor behind it */
    FB_SCENE_SCROLL,  /* a terminal of 80 x 25 cells that scrolls a line */
    FB_SCENE_WINDOW,  /* a window that moves by a cell, and what it uncovers */
    FB_SCENE_FULL,    /* everything */
};

#define FB_SCENE_NAMES "desktop|cursor|type|scroll|window|full"

/* A rectangle of cells. */
struct fb_rect {
    unsigned x, y, width, height;
};

#define FB_SCENE_MAX_RECTS 8

/* What frame number `frame` draws; within the surface. Returns how many rectangles, 0 where nothing
 * moves in this frame. */
unsigned fb_scene_frame(enum fb_scene scene, uint64_t frame, struct fb_rect *rects);

#endif
