/* SPDX-License-Identifier: MIT
 *
 * Who populates what: every announced extent once, by a thread that runs ahead or by whoever
 * receives, and nothing else. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/populate.h"
#include "migrate/wire.h"

#define GRANULES 100u
#define PAGES    (GRANULES * POPULATE_GRANULE_PAGES - 7) /* the last one is not whole */
#define TAKERS   3u

struct counts {
    unsigned of[GRANULES]; /* atomic */
    uint64_t pages;        /* atomic */
    bool fails;
};

static int count(void *opaque, const struct migrate_chunk *chunk, struct error *err)
{
    struct counts *counts = opaque;
    uint64_t end = chunk->first_page + chunk->npages;

    assert(chunk->region == 0 && end <= PAGES); /* cmocka's own are for one thread */
    assert(chunk->first_page % POPULATE_GRANULE_PAGES == 0);
    for (uint64_t page = chunk->first_page; page < end; page += POPULATE_GRANULE_PAGES)
        (void)__atomic_fetch_add(&counts->of[page / POPULATE_GRANULE_PAGES], 1, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&counts->pages, chunk->npages, __ATOMIC_RELAXED);
    return counts->fails ? error_set(err, ENOMEM, "no memory") : 0;
}

static const struct migrate_sink_ops ops = {.populate = count};

struct fixture {
    struct counts counts;
    struct migrate_sink sink;
    struct migrate_layout layout;
    struct populate populate;
    pthread_barrier_t start;
};

/* Announces pages [first, first + npages). */
static int announce(struct fixture *f, uint64_t first, uint32_t npages)
{
    struct wire_run run = {
        .kind = WIRE_KIND_POPULATED, .gpa = first * MIGRATE_PAGE_BYTES, .npages = npages};
    struct record record = {.header = {.type = WIRE_EXTENTS, .meta_bytes = WIRE_RUN_BYTES}};
    struct error err = {.text = ""};

    wire_put_run(record.meta, &run);
    return populate_add(&f->populate, &record, &err);
}

static void begin(struct fixture *f)
{
    struct error err = {.text = ""};

    memset(f, 0, sizeof(*f));
    f->sink = (struct migrate_sink){.ops = &ops, .opaque = &f->counts};
    f->layout.nregions = 1;
    f->layout.region[0].npages = PAGES;
    assert_int_equal(populate_init(&f->populate, &f->sink, &f->layout, &err), 0);
}

/* As many busy threads as make a thread ahead impossible. */
#define ALL_BUSY 100000u

static void by_whoever_receives(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    assert_int_equal(announce(&f, 512, 1024), 0);
    populate_pages(&f.populate, 0, 512, 1);
    assert_int_equal(f.counts.pages, 0); /* more may be announced yet */
    populate_begin(&f.populate, ALL_BUSY);
    assert_true(populate_has_begun(&f.populate));
    populate_pages(&f.populate, 0, 0, 512); /* not announced */
    assert_int_equal(f.counts.pages, 0);
    populate_pages(&f.populate, 0, 1000, 2);
    assert_int_equal(f.counts.of[1], 1);
    assert_int_equal(f.counts.pages, 512);
    populate_pages(&f.populate, 0, 0, PAGES);
    populate_pages(&f.populate, 0, 0, PAGES);
    assert_int_equal(f.counts.of[1], 1);
    assert_int_equal(f.counts.of[2], 1);
    assert_int_equal(f.counts.pages, 1024);
    populate_stop(&f.populate);
}

static void the_last_is_not_whole(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    assert_int_equal(announce(&f, PAGES - 1, 1), 0);
    populate_begin(&f.populate, ALL_BUSY);
    populate_pages(&f.populate, 0, PAGES - 1, 1);
    assert_int_equal(f.counts.of[GRANULES - 1], 1);
    assert_int_equal(f.counts.pages, POPULATE_GRANULE_PAGES - 7);
    populate_stop(&f.populate);
}

static void *take(void *opaque)
{
    struct fixture *f = opaque;

    (void)pthread_barrier_wait(&f->start);
    for (uint64_t page = 0; page < PAGES; page += 300)
        populate_pages(&f->populate, 0, page, page + 300 < PAGES ? 300 : PAGES - page);
    return NULL;
}

static void each_once(void **state)
{
    struct fixture f;
    pthread_t threads[TAKERS];

    (void)state;
    for (unsigned turn = 0; turn < 1000; turn++) {
        begin(&f);
        assert_int_equal(announce(&f, 0, PAGES), 0);
        assert_int_equal(pthread_barrier_init(&f.start, NULL, TAKERS), 0);
        populate_begin(&f.populate, turn % 2 ? 0 : ALL_BUSY);
        for (unsigned i = 0; i < TAKERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, take, &f), 0);
        for (unsigned i = 0; i < TAKERS; i++)
            (void)pthread_join(threads[i], NULL);
        (void)pthread_barrier_destroy(&f.start);
        populate_stop(&f.populate);
        for (unsigned i = 0; i < GRANULES; i++)
            assert_int_equal(f.counts.of[i], 1);
        assert_int_equal(f.counts.pages, PAGES);
    }
}

static void a_thread_only_with_cpus_to_spare(void **state)
{
    struct fixture f;
    cpu_set_t allowed;
    unsigned cpus;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    cpus = (unsigned)CPU_COUNT(&allowed);
    for (unsigned busy = 0; busy <= cpus; busy++) {
        begin(&f);
        populate_begin(&f.populate, busy);
        assert_int_equal(f.populate.started, busy < cpus);
        populate_stop(&f.populate);
    }
}

static void given_up_at_the_first_failure(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    f.counts.fails = true;
    assert_int_equal(announce(&f, 0, PAGES), 0);
    populate_begin(&f.populate, ALL_BUSY);
    populate_pages(&f.populate, 0, 0, 1);
    populate_pages(&f.populate, 0, 512, 1);
    assert_int_equal(f.counts.pages, 512);
    populate_stop(&f.populate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_whoever_receives),
        cmocka_unit_test(the_last_is_not_whole),
        cmocka_unit_test(each_once),
        cmocka_unit_test(a_thread_only_with_cpus_to_spare),
        cmocka_unit_test(given_up_at_the_first_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
