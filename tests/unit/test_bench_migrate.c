/* SPDX-License-Identifier: MIT
 *
 * The pure parts of bench migrate: summaries, what a process used, the observer's sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/bench_engine_guest.h"
#include "tools/bench_engine_writer.h"
#include "tools/bench_migrate_report.h"
#include "tools/bench_observer.h"
#include "tools/bench_usage.h"
#include "vmm/base/bitmap.h"

static void test_summary(void **state)
{
    struct bench_migrate_row rows[3] = {{{0}, {0}}};
    struct bench_migrate_summary summary;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        bench_migrate_put(&rows[i], BENCH_MIGRATE_TOTAL, (i * 2 + 2) % 3 + 10);
    bench_migrate_put(&rows[0], BENCH_MIGRATE_BLACKOUT, 5);
    assert_int_equal(bench_migrate_summarize(rows, 3, BENCH_MIGRATE_TOTAL, &summary), 0);
    assert_true(summary.has);
    assert_int_equal(summary.min, 10);
    assert_int_equal(summary.median, 11);
    assert_int_equal(summary.max, 12);
    /* What only some have has no median. */
    assert_int_equal(bench_migrate_summarize(rows, 3, BENCH_MIGRATE_BLACKOUT, &summary), 0);
    assert_false(summary.has);
    assert_int_equal(bench_migrate_summarize(rows, 0, BENCH_MIGRATE_TOTAL, &summary), 0);
    assert_false(summary.has);
}

static void test_json(void **state)
{
    struct bench_migrate_config config = {.engine = true, .memory_bytes = 64, .touched_bytes = 32};
    struct bench_migrate_row row = {{0}, {0}};
    json_t *object, *over;

    (void)state;
    bench_migrate_put(&row, BENCH_MIGRATE_OVER_RAW, 1500000);
    object = bench_migrate_json(&config, &row, 1);
    over = json_object_get(json_object_get(json_object_get(object, "summary"), "over_raw"), "max");
    assert_true(json_real_value(over) > 1.49 && json_real_value(over) < 1.51);
    assert_int_equal(json_array_size(json_object_get(object, "migrations")), 1);
    assert_int_equal(json_integer_value(json_object_get(object, "touched_bytes")), 32);
    assert_null(json_object_get(object, "workload"));
    assert_null(json_object_get(object, "dirty_rate"));
    json_decref(object);
    config.dirty_rate = 7;
    config.dirty_random = true;
    object = bench_migrate_json(&config, &row, 1);
    assert_int_equal(json_integer_value(json_object_get(object, "dirty_rate")), 7);
    assert_true(json_is_true(json_object_get(object, "dirty_random")));
    json_decref(object);
}

static void test_usage(void **state)
{
    struct bench_usage usage;

    (void)state;
    bench_usage_parse("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\nRssAnon:\t 512 kB\n"
                      "RssFile:\t 8 kB\nRssShmem:\t 16 kB",
                      &usage);
    assert_int_equal(usage.peak_bytes, 2048 << 10);
    assert_int_equal(usage.anon_bytes, 512 << 10);
    assert_int_equal(usage.file_bytes, 8 << 10);
    assert_int_equal(usage.shmem_bytes, 16 << 10);
    bench_usage_parse("", &usage);
    assert_int_equal(usage.peak_bytes + usage.anon_bytes + usage.file_bytes + usage.shmem_bytes, 0);
}

/* The guest beats at the source, stops, arrives as it was, and beats on. */
static void test_observer(void **state)
{
    static struct guest_stats here, there;
    struct bench_observer observer = {.source.stats = &here, .target.stats = &there};

    (void)state;
    here = (struct guest_stats){.magic = GUEST_STATS_MAGIC};
    there = (struct guest_stats){.magic = 0};
    here.cpu[0].heartbeat = 3;
    here.cpu[1].heartbeat = 4;
    here.cpu[1].work = 70;
    bench_observer_look(&observer, 1000);
    bench_observer_look(&observer, 1500); /* nothing new */
    assert_int_equal(bench_observer_work(&observer), 70);
    there = here;
    bench_observer_look(&observer, 2000); /* it is there, but does not run */
    assert_int_equal(bench_observer_blackout(&observer), 0);
    there.cpu[0].heartbeat++;
    there.cpu[0].work = 5;
    bench_observer_look(&observer, 2600);
    there.cpu[0].heartbeat++;
    bench_observer_look(&observer, 2700);
    assert_int_equal(bench_observer_blackout(&observer), 1600);
    assert_int_equal(bench_observer_work(&observer), 75);
}

/* What it stored to is in the log, and only that; it goes on after a pause, as the engine makes one
 * after its first round. */
static void test_writer(void **state)
{
    static uint8_t pages[4 * 4096];
    struct engine_writer writer = {.hva = pages, .npages = 4, .rate = 100000};
    struct error err = {""};
    uint64_t pending = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t before;

        if (i)
            engine_writer_resume(&writer);
        else
            assert_int_equal(engine_writer_start(&writer, &err), 0);
        for (pending = 0; pending != 15; engine_writer_collect(&writer, &pending))
            (void)usleep(1000);
        engine_writer_pause(&writer);
        pending = 0;
        engine_writer_collect(&writer, &pending);
        before = *(volatile uint64_t *)(void *)pages;
        pending = 0;
        (void)usleep(5000);
        engine_writer_collect(&writer, &pending);
        assert_int_equal(pending, 0);
        assert_int_equal(before, *(volatile uint64_t *)(void *)pages);
    }
    engine_writer_free(&writer);
}

/* Of the first 40 stores at random to 4096 pages few go to neighbours, and none are in turn. */
static void test_scatter(void **state)
{
    unsigned neighbours = 0;

    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t page = engine_writer_scatter(i) % 4096;

        neighbours += engine_writer_scatter(i + 1) % 4096 == page + 1;
        assert_int_equal(engine_writer_scatter(i) % 4096, page);
    }
    assert_true(neighbours < 2);
}

/* What the options say reaches the writer: its first store is in turn or where chance puts it. */
static void writes(bool random, uint64_t first_page)
{
    struct engine_guest guest = {.bytes = 32ull << 20,
                                 .backing = MEMORY_ANON,
                                 .dirty_rate = 1000,
                                 .dirty_bytes = 16ull << 20,
                                 .dirty_random = random};
    struct migrate_source source = engine_guest_source(&guest);
    struct error err = {""};
    uint64_t *pending, npages;

    assert_int_equal(engine_guest_create(&guest, &err), 0);
    assert_int_equal(source.ops->log_start(&guest, &err), 0);
    pending = guest.pending[0];
    memset(pending, 0, (32ull << 20) / 4096 / 8); /* all was to be sent once */
    for (npages = 0; !npages;)
        assert_int_equal(source.ops->sync(&guest, &npages, &err), 0);
    assert_true(bitmap_test(pending, first_page));
    source.ops->log_stop(&guest);
    engine_guest_free(&guest);
}

static void test_writer_options(void **state)
{
    (void)state;
    writes(false, 0);
    writes(true, engine_writer_scatter(0) % 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer),         cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_writer_options), cmocka_unit_test(test_summary),
        cmocka_unit_test(test_json),           cmocka_unit_test(test_usage),
        cmocka_unit_test(test_observer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
