/* SPDX-License-Identifier: MIT */
#include "tests/unit/fake_guest.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/base/bitmap.h"

static const char fake_tree[] = "a machine of two regions";

static void map_region(struct migrate_region *region, bool in_file)
{
    size_t bytes = region->npages * MIGRATE_PAGE_BYTES;

    region->has_file = in_file;
    region->file = in_file ? memfd_create("fake guest", MFD_CLOEXEC) : -1;
    if (in_file && (region->file < 0 || ftruncate(region->file, (off_t)bytes)))
        abort();
    region->hva = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       in_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, region->file, 0);
    if (region->hva == MAP_FAILED)
        abort();
}

static void init(struct fake_guest *guest, const uint64_t *npages, bool content, bool in_files)
{
    uint64_t gpa = 0;

    memset(guest, 0, sizeof(*guest));
    (void)pthread_mutex_init(&guest->store, NULL);
    guest->layout.nregions = FAKE_REGIONS;
    for (unsigned i = 0; i < FAKE_REGIONS; i++) {
        struct migrate_region *region = &guest->layout.region[i];

        region->gpa = gpa;
        region->npages = npages[i];
        map_region(region, in_files);
        gpa += (npages[i] + 1000) * MIGRATE_PAGE_BYTES;
        guest->dirty[i] = calloc(bitmap_words(npages[i]), sizeof(uint64_t));
        guest->pending[i] = calloc(bitmap_words(npages[i]), sizeof(uint64_t));
        guest->touched[i] = calloc(bitmap_words(npages[i]), sizeof(uint64_t));
        for (uint64_t page = 0; content && page < npages[i]; page += 2) {
            memset(region->hva + page * MIGRATE_PAGE_BYTES, (int)(page % 255) + 1,
                   MIGRATE_PAGE_BYTES);
            bitmap_set(guest->touched[i], page);
        }
    }
    (void)strcpy(guest->state, "the state of a fake guest");
    guest->running = true;
}

void fake_guest_init(struct fake_guest *guest, const uint64_t *npages, bool content)
{
    init(guest, npages, content, false);
}

void fake_guest_init_in_files(struct fake_guest *guest, const uint64_t *npages, bool content)
{
    init(guest, npages, content, true);
}

void fake_guest_free(struct fake_guest *guest)
{
    __atomic_store_n(&guest->stop, true, __ATOMIC_RELAXED);
    if (guest->writer_started)
        (void)pthread_join(guest->writer, NULL);
    for (unsigned i = 0; i < FAKE_REGIONS; i++) {
        (void)munmap(guest->layout.region[i].hva,
                     guest->layout.region[i].npages * MIGRATE_PAGE_BYTES);
        if (guest->layout.region[i].has_file)
            (void)close(guest->layout.region[i].file);
        free(guest->dirty[i]);
        free(guest->pending[i]);
        free(guest->touched[i]);
    }
    (void)pthread_mutex_destroy(&guest->store);
}

static void *writer_main(void *opaque)
{
    struct fake_guest *guest = opaque;
    unsigned seed = guest->seed;

    while (!__atomic_load_n(&guest->stop, __ATOMIC_RELAXED)) {
        unsigned r = (unsigned)rand_r(&seed) % FAKE_REGIONS;
        uint64_t page = (uint64_t)rand_r(&seed) % guest->layout.region[r].npages;
        uint8_t *hva = guest->layout.region[r].hva + page * MIGRATE_PAGE_BYTES;

        (void)pthread_mutex_lock(&guest->store);
        if (guest->running) {
            if (rand_r(&seed) % 8 == 0)
                memset(hva, 0, MIGRATE_PAGE_BYTES); /* becomes a zero page */
            else
                memset(hva + rand_r(&seed) % 4000, rand_r(&seed), 64);
            bitmap_set(guest->dirty[r], page);
            bitmap_set(guest->touched[r], page);
        }
        (void)pthread_mutex_unlock(&guest->store);
        if (rand_r(&seed) % 64 == 0)
            (void)usleep(50);
    }
    return NULL;
}

void fake_guest_run(struct fake_guest *guest, unsigned seed)
{
    guest->seed = seed;
    guest->writer_started = pthread_create(&guest->writer, NULL, writer_main, guest) == 0;
    assert(guest->writer_started);
}

bool fake_guest_equal(const struct fake_guest *a, const struct fake_guest *b)
{
    for (unsigned i = 0; i < FAKE_REGIONS; i++) {
        if (memcmp(a->layout.region[i].hva, b->layout.region[i].hva,
                   a->layout.region[i].npages * MIGRATE_PAGE_BYTES) != 0)
            return false;
    }
    return true;
}

/* ---- source */

static int describe(void *opaque, const void **tree, size_t *tree_bytes,
                    struct migrate_layout *layout, struct error *err)
{
    struct fake_guest *guest = opaque;

    (void)err;
    *tree = fake_tree;
    *tree_bytes = sizeof(fake_tree);
    *layout = guest->layout;
    return 0;
}

static void copy_bits(uint64_t *to, const uint64_t *from, const struct migrate_chunk *chunk)
{
    memcpy(to, from + chunk->first_page / BITMAP_WORD_BITS,
           bitmap_words(chunk->npages) * sizeof(uint64_t));
}

static int populated(void *opaque, const struct migrate_chunk *chunk, uint64_t *words,
                     struct error *err)
{
    struct fake_guest *guest = opaque;

    (void)err;
    (void)pthread_mutex_lock(&guest->store);
    copy_bits(words, guest->touched[chunk->region], chunk);
    (void)pthread_mutex_unlock(&guest->store);
    return 0;
}

static int log_start(void *opaque, struct error *err)
{
    struct fake_guest *guest = opaque;

    (void)err;
    guest->logging = true;
    for (unsigned i = 0; i < FAKE_REGIONS; i++)
        bitmap_set_range(guest->pending[i], 0, guest->layout.region[i].npages);
    return 0;
}

static int sync_log(void *opaque, uint64_t *pending_pages, struct error *err)
{
    struct fake_guest *guest = opaque;

    guest->syncs++;
    if (guest->fault == FAKE_FAIL_SYNC)
        return error_set(err, ESHUTDOWN, "the guest ended with code 7 during the migration");
    *pending_pages = 0;
    (void)pthread_mutex_lock(&guest->store);
    for (unsigned i = 0; i < FAKE_REGIONS; i++) {
        uint64_t npages = guest->layout.region[i].npages;

        for (size_t w = 0; w < bitmap_words(npages); w++) {
            guest->pending[i][w] |= guest->dirty[i][w];
            guest->dirty[i][w] = 0;
        }
        *pending_pages += bitmap_count(guest->pending[i], npages);
    }
    (void)pthread_mutex_unlock(&guest->store);
    return 0;
}

static int alive(void *opaque, struct error *err)
{
    const struct fake_guest *guest = opaque;

    return guest->fault == FAKE_ENDED ? error_set(err, ESHUTDOWN, "the guest ended with code 9")
                                      : 0;
}

static int claim(void *opaque, const struct migrate_chunk *chunk, bool first_round, uint64_t *data,
                 uint64_t *zero, struct error *err)
{
    struct fake_guest *guest = opaque;
    size_t first_word = (size_t)(chunk->first_page / BITMAP_WORD_BITS);
    size_t nwords = bitmap_words(chunk->npages);
    uint64_t *pending = guest->pending[chunk->region] + first_word;
    const uint64_t *touched = guest->touched[chunk->region] + first_word;

    (void)err;
    assert(guest->logging);
    (void)pthread_mutex_lock(&guest->store);
    for (size_t w = 0; w < nwords; w++) {
        data[w] = pending[w] & touched[w];
        zero[w] = first_round ? 0 : pending[w] & ~touched[w];
        pending[w] = 0;
    }
    (void)pthread_mutex_unlock(&guest->store);
    return 0;
}

static int throttle(void *opaque, unsigned percent, struct error *err)
{
    struct fake_guest *guest = opaque;

    (void)err;
    assert(percent < 100);
    guest->throttle = percent;
    if (percent > guest->most_throttle)
        guest->most_throttle = percent;
    return 0;
}

static int pause_guest(void *opaque, bool last, bool *was_running, struct error *err)
{
    struct fake_guest *guest = opaque;

    if (guest->fault == FAKE_FAIL_PAUSE && last)
        return error_set(err, ESHUTDOWN, "the guest ended");
    (void)pthread_mutex_lock(&guest->store);
    assert(!last || guest->throttle == 0); /* nobody slows a guest that is about to move */
    *was_running = guest->running;
    guest->running = false;
    guest->pauses++;
    (void)pthread_mutex_unlock(&guest->store);
    return 0;
}

/* Writes guest memory as a device that is quiesced would: it must reach the destination. */
static int save(void *opaque, void **state, size_t *state_bytes, struct error *err)
{
    struct fake_guest *guest = opaque;
    uint64_t last = guest->layout.region[1].npages - 1;

    (void)err;
    guest->layout.region[1].hva[last * MIGRATE_PAGE_BYTES + 17]++;
    bitmap_set(guest->dirty[1], last);
    bitmap_set(guest->touched[1], last);
    *state = malloc(sizeof(guest->state));
    memcpy(*state, guest->state, sizeof(guest->state));
    *state_bytes = sizeof(guest->state);
    return 0;
}

static int resume(void *opaque, bool run, struct error *err)
{
    struct fake_guest *guest = opaque;

    (void)err;
    assert(!guest->moved);
    (void)pthread_mutex_lock(&guest->store);
    guest->running = run;
    guest->resumes++;
    (void)pthread_mutex_unlock(&guest->store);
    return 0;
}

static void moved(void *opaque)
{
    struct fake_guest *guest = opaque;

    guest->moved = true;
}

static void log_stop(void *opaque)
{
    struct fake_guest *guest = opaque;

    guest->logging = false;
}

struct migrate_source fake_guest_source(struct fake_guest *guest)
{
    static const struct migrate_source_ops ops = {.describe = describe,
                                                  .populated = populated,
                                                  .log_start = log_start,
                                                  .sync = sync_log,
                                                  .claim = claim,
                                                  .throttle = throttle,
                                                  .alive = alive,
                                                  .pause = pause_guest,
                                                  .save = save,
                                                  .resume = resume,
                                                  .moved = moved,
                                                  .log_stop = log_stop};

    return (struct migrate_source){.ops = &ops, .opaque = guest};
}

/* ---- sink */

static int check(void *opaque, const void *tree, size_t tree_bytes, struct error *err)
{
    struct fake_guest *guest = opaque;

    if (guest->fault == FAKE_FAIL_CHECK)
        return error_set(err, ENOTSUP, "this host lacks the CPU feature avx512f");
    if (tree_bytes != sizeof(fake_tree) || memcmp(tree, fake_tree, tree_bytes) != 0)
        return error_set(err, EPROTO, "that is no fake machine");
    return 0;
}

static int create(void *opaque, const void *tree, size_t tree_bytes, struct migrate_layout *layout,
                  struct error *err)
{
    struct fake_guest *guest = opaque;

    (void)tree;
    (void)tree_bytes;
    if (guest->fault == FAKE_FAIL_CREATE)
        return error_set(err, ENOMEM, "too little memory for the guest");
    *layout = guest->layout;
    guest->created = true;
    return 0;
}

static int populate(void *opaque, const struct migrate_chunk *chunk, struct error *err)
{
    struct fake_guest *guest = opaque;

    (void)err;
    assert(chunk->first_page + chunk->npages <= guest->layout.region[chunk->region].npages);
    return 0;
}

static int load(void *opaque, const void *state, size_t state_bytes, struct error *err)
{
    struct fake_guest *guest = opaque;

    if (guest->fault == FAKE_FAIL_LOAD)
        return error_set(err, EINVAL, "the state has a register that this host does not know");
    if (state_bytes != sizeof(guest->state))
        return error_set(err, EPROTO, "a state of %zu bytes", state_bytes);
    memcpy(guest->state, state, state_bytes);
    return 0;
}

static void run(void *opaque, bool running)
{
    struct fake_guest *guest = opaque;

    assert(!guest->discarded && !guest->ran);
    guest->ran = true;
    guest->ran_running = running;
}

static void discard(void *opaque)
{
    struct fake_guest *guest = opaque;

    assert(guest->created && !guest->ran && !guest->discarded);
    guest->discarded = true;
}

struct migrate_sink fake_guest_sink(struct fake_guest *guest)
{
    static const struct migrate_sink_ops ops = {.check = check,
                                                .create = create,
                                                .populate = populate,
                                                .load = load,
                                                .run = run,
                                                .discard = discard};

    return (struct migrate_sink){.ops = &ops, .opaque = guest};
}
