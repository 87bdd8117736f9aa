/* SPDX-License-Identifier: MIT
 *
 * fb: redraws parts of the frame buffer, frame by frame, as a screen would. What it drew last must
 * be what is there: a cell is judged before it is drawn again, all of them at the end, when the
 * table of generations, which lies in RAM, must tell of as many drawings as were counted. Memory
 * behind the surface is never written and must read as zero. A mismatch ends the guest with
 * GUEST_EXIT_MEMORY.
 *
 * CPU 0 draws; the others halt from tick to tick and judge their share at the end. */
#include "guest/lib/boot_info.h"
#include "guest/lib/console.h"
#include "guest/lib/cpu.h"
#include "guest/workloads/fb_scene.h"
#include "guest/workloads/fb_surface.h"
#include "guest/workloads/workloads.h"

#define IDLE_HZ 100

enum { FB_RATE, FB_SCENE, FB_WAIT, FB_SABOTAGE };
enum { SABOTAGE_NONE, SABOTAGE_PIXEL, SABOTAGE_STALE, SABOTAGE_TABLE, SABOTAGE_BEHIND };

static const struct param params[] = {
    [FB_RATE] = {.key = "rate", .type = PARAM_NUMBER, .value = 30, .max = 1000},
    [FB_SCENE] = {.key = "scene", .type = PARAM_CHOICE, .choices = FB_SCENE_NAMES},
    [FB_WAIT] = {.key = "wait", .type = PARAM_CHOICE, .choices = "halt|spin"},
    [FB_SABOTAGE] = {.key = "sabotage",
                     .type = PARAM_CHOICE,
                     .choices = "none|pixel|stale|table|behind"},
    {.key = NULL},
};

static struct fb_surface surface;
static uint64_t cells_drawn;

static void prepare(struct run *run)
{
    uint64_t bytes = boot_info.framebuffer.end - boot_info.framebuffer.start;

    (void)run;
    if (!bytes) {
        print("fb: no frame buffer in the device tree (pageferry run --framebuffer)\n");
        machine_exit(GUEST_EXIT_NO_DEVICE);
    }
    if (bytes < FB_BYTES) {
        print("fb: the frame buffer has %lu bytes, the surface %u\n", bytes, FB_BYTES);
        machine_exit(GUEST_EXIT_NO_DEVICE);
    }
    surface.base = boot_info.framebuffer.start;
    surface.generation = page_set_reserve(FB_CELLS * sizeof(*surface.generation));
}

static void fill(struct run *run, struct worker *worker)
{
    uint64_t first, end;

    worker_share(worker, run, FB_CELLS, &first, &end);
    for (uint64_t cell = first; cell < end; cell++) {
        fb_cell_draw(&surface, (unsigned)cell, 0);
        if (cell % FB_COLUMNS == 0)
            worker_beat(worker, 0);
    }
}

static void judge(struct worker *worker, unsigned cell)
{
    struct fb_fault fault;

    if (fb_cell_ok(&surface, cell, &fault))
        return;
    print("fb: FAULT cpu %u cell %u,%u generation %u: pixel row %u word %u is %lx, expected %lx\n",
          worker->cpu, cell % FB_COLUMNS, cell / FB_COLUMNS, surface.generation[cell], fault.row,
          fault.word, fault.found, fault.expected);
    worker_fault(worker, GUEST_EXIT_MEMORY);
}

static void draw_frame(const struct run *run, struct worker *worker, uint64_t frame)
{
    struct fb_rect rects[FB_SCENE_MAX_RECTS];
    unsigned n = fb_scene_frame((enum fb_scene)run->params.value[FB_SCENE], frame, rects);

    for (unsigned i = 0; i < n; i++) {
        const struct fb_rect *r = &rects[i];

        for (unsigned j = 0; j < r->width * r->height; j++) {
            unsigned cell = (r->y + j / r->width) * FB_COLUMNS + r->x + j % r->width;

            judge(worker, cell);
            fb_cell_draw(&surface, cell, ++surface.generation[cell]);
            cells_drawn++;
        }
    }
}

/* Spoils one thing, the way a faulty migration would, to show that it is found out. */
static void spoil(uint64_t sabotage)
{
    switch (sabotage) {
    case SABOTAGE_PIXEL:
        *(volatile uint32_t *)(surface.base + FB_BYTES - FB_PIXEL_BYTES) ^= 1;
        break;
    case SABOTAGE_STALE:
        fb_cell_draw(&surface, 0, surface.generation[0] - 1);
        break;
    case SABOTAGE_TABLE: /* table and screen agree, and are both of long ago */
        fb_cell_draw(&surface, 0, --surface.generation[0]);
        break;
    case SABOTAGE_BEHIND:
        *(volatile uint64_t *)(boot_info.framebuffer.end - sizeof(uint64_t)) = 1;
        break;
    default:
        break;
    }
}

static void keep_company(struct run *run, struct worker *worker)
{
    worker_start_timer(worker, IDLE_HZ, CPU_TIMER_LAPIC);
    while (worker_next(worker, run, 0))
        cpu_call(CPU_CALL_WAIT, 0, 0);
}

static void work(struct run *run, struct worker *worker)
{
    const uint64_t *value = run->params.value;
    uint64_t frame = 0;
    unsigned slice = 0;

    if (worker->cpu != 0) {
        keep_company(run, worker);
        return;
    }
    /* A worker's rate is its share, and this one draws alone. */
    worker_set_rate(worker, run, value[FB_RATE] * run->ncpus, (enum run_wait)value[FB_WAIT]);
    while ((slice = worker_next(worker, run, slice))) {
        if (!value[FB_RATE])
            slice = 1; /* frames are long: a whole slice of them would be no heartbeat */
        for (unsigned i = 0; i < slice; i++)
            draw_frame(run, worker, frame++);
    }
    spoil(value[FB_SABOTAGE]);
}

static void verify_behind(struct run *run, struct worker *worker)
{
    const uint64_t start = surface.base + FB_BYTES;
    uint64_t first, end;

    worker_share(worker, run, (boot_info.framebuffer.end - start) / sizeof(uint64_t), &first, &end);
    for (uint64_t i = first; i < end; i++) {
        const volatile uint64_t *word = (const volatile uint64_t *)start + i;

        if (*word) {
            print("fb: FAULT cpu %u: %lx behind the surface holds %lx, was never written\n",
                  worker->cpu, (uint64_t)word, *word);
            worker_fault(worker, GUEST_EXIT_MEMORY);
        }
        if (i % BOOT_PAGE_BYTES == 0)
            worker_beat(worker, 0);
    }
}

static void verify(struct run *run, struct worker *worker)
{
    uint64_t first, end;
    uint64_t sum = 0;

    worker_share(worker, run, FB_CELLS, &first, &end);
    for (uint64_t cell = first; cell < end; cell++) {
        judge(worker, (unsigned)cell);
        if (cell % FB_COLUMNS == 0)
            worker_beat(worker, 0);
    }
    verify_behind(run, worker);
    if (worker->cpu != 0)
        return;
    for (unsigned cell = 0; cell < FB_CELLS; cell++)
        sum += surface.generation[cell];
    if (sum != cells_drawn) {
        print("fb: FAULT %lu cells were drawn, the table tells of %lu\n", cells_drawn, sum);
        worker_fault(worker, GUEST_EXIT_MEMORY);
    }
}

static void summary(struct run *run)
{
    struct guest_cpu_stats total = run_total(run);

    print("fb: OK frames=%lu cells=%lu max_gap_us=%lu tsc_steps=%lu\n", total.work, cells_drawn,
          total.max_gap_ns / 1000, total.tsc_steps);
}

const struct workload workload_fb = {
    .name = GUEST_WORKLOAD_FB,
    .about = "redraws parts of the frame buffer as a screen would, and verifies it",
    .params = params,
    .prepare = prepare,
    .fill = fill,
    .work = work,
    .verify = verify,
    .summary = summary,
};
