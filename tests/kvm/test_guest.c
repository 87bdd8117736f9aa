/* SPDX-License-Identifier: MIT
 *
 * Fixture of the tests on real KVM. */
#include "test_guest.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>

#include "vmm/base/clock.h"

#define EXIT_SKIP 77

static const struct machine_host host = {.backing = MEMORY_ANON};

/* Asserts that a call returned 0, and shows its line otherwise. */
static void must(int ret, const struct error *err)
{
    if (ret)
        fail_msg("%d: %s", ret, err->text);
}

void test_guest_open_kvm(struct kvm *kvm)
{
    struct error err = {0};

    if (kvm_open(kvm, &err)) {
        (void)fprintf(stderr, "skipped: %s\n", err.text);
        exit(EXIT_SKIP);
    }
}

static void *read_image(size_t *bytes)
{
    struct stat info;
    void *image;
    int fd = open(TESTGUEST_ELF, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    image = malloc((size_t)info.st_size);
    assert_non_null(image);
    assert_int_equal(read(fd, image, (size_t)info.st_size), info.st_size);
    close(fd);
    *bytes = (size_t)info.st_size;
    return image;
}

struct machine *test_guest_create_on(const struct kvm *kvm, const struct machine_host *made_for,
                                     unsigned ncpus, uint64_t memory_bytes, const char *bootargs,
                                     bool load)
{
    struct machine_description *description = calloc(1, sizeof(*description));
    struct machine *machine = NULL;
    struct error err = {0};
    size_t fdt_bytes;
    void *fdt;

    assert_non_null(description);
    description->memory_bytes = memory_bytes;
    description->ncpus = ncpus;
    description->exit_port = GUEST_EXIT_PORT_DEFAULT;
    (void)snprintf(description->bootargs, sizeof(description->bootargs), "%s", bootargs);
    must(machine_host_cpu(kvm, "host", description, &err), &err);
    must(machine_tree_build(description, &fdt, &fdt_bytes, &err), &err);
    must(machine_create(&machine, kvm, fdt, fdt_bytes, made_for, &err), &err);
    free(fdt);
    free(description);
    if (load) {
        struct machine_boot boot = {.kernel = {.name = TESTGUEST_ELF},
                                    .load_address = MACHINE_LOAD_BY_IMAGE};
        void *image = read_image(&boot.kernel.bytes);

        boot.kernel.data = image;
        must(machine_load(machine, &boot, &err), &err);
        free(image);
    }
    return machine;
}

struct machine *test_guest_create(const struct kvm *kvm, unsigned ncpus, uint64_t memory_bytes,
                                  const char *bootargs, bool load)
{
    return test_guest_create_on(kvm, &host, ncpus, memory_bytes, bootargs, load);
}

static void drain(struct machine *machine, struct test_console *console)
{
    for (;;) {
        size_t room = sizeof(console->text) - 1 - console->bytes;
        size_t taken =
            machine_console_take(machine, (uint8_t *)console->text + console->bytes, room);

        if (!taken)
            break;
        console->bytes += taken;
    }
    console->text[console->bytes] = '\0';
}

void test_guest_wait_event(struct machine *machine, const struct test_console *console)
{
    struct pollfd event = {.fd = machine_event_fd(machine), .events = POLLIN};

    if (poll(&event, 1, TEST_GUEST_PATIENCE_MS) != 1)
        fail_msg("nothing happened; the guest said: %s", console->text);
    machine_event_ack(machine);
}

bool test_guest_wait_text(struct machine *machine, struct test_console *console, const char *text)
{
    for (;;) {
        bool stopped = machine_state(machine) == MACHINE_STOPPED;

        drain(machine, console);
        if (strstr(console->text, text))
            return true;
        if (stopped)
            return false;
        test_guest_wait_event(machine, console);
    }
}

bool test_guest_wait_more(struct machine *machine, struct test_console *console)
{
    size_t before = console->bytes;

    for (;;) {
        bool stopped = machine_state(machine) == MACHINE_STOPPED;

        drain(machine, console);
        if (console->bytes > before)
            return true;
        if (stopped)
            return false;
        test_guest_wait_event(machine, console);
    }
}

const struct machine_exit *test_guest_wait_exit(struct machine *machine,
                                                struct test_console *console)
{
    for (;;) {
        bool stopped = machine_state(machine) == MACHINE_STOPPED;

        drain(machine, console);
        if (stopped)
            return machine_exit(machine);
        test_guest_wait_event(machine, console);
    }
}

void test_guest_finish(struct machine *machine, struct test_console *console)
{
    const uint8_t byte = GUEST_FINISH_BYTE;
    const struct machine_exit *end;

    while (machine_state(machine) == MACHINE_RUNNING &&
           machine_console_give(machine, &byte, 1) == 0)
        test_guest_wait_event(machine, console);
    end = test_guest_wait_exit(machine, console);
    if (end->kind != MACHINE_EXIT_GUEST || end->code != GUEST_EXIT_OK)
        fail_msg("the guest ended with %u (%s); it said: %s", end->code, end->reason,
                 console->text);
}

const volatile struct guest_stats *test_guest_stats(struct machine *machine)
{
    const void *page =
        memory_at(machine_memory(machine), GUEST_STATS_GPA, sizeof(struct guest_stats));

    assert_non_null(page);
    return page;
}

void test_guest_wait_beats(struct machine *machine, uint64_t beats)
{
    const volatile struct guest_stats *stats = test_guest_stats(machine);
    uint64_t deadline = clock_now_ns() + TEST_GUEST_PATIENCE_MS * CLOCK_NS_PER_MS;
    const struct timespec nap = {.tv_nsec = 200000};
    unsigned ncpus = machine_ncpus(machine);

    for (unsigned cpu = 0; cpu < ncpus; cpu++) {
        uint64_t start = stats->cpu[cpu].heartbeat;

        while (stats->cpu[cpu].heartbeat - start < beats) {
            if (machine_state(machine) != MACHINE_RUNNING)
                return;
            if (clock_now_ns() > deadline)
                fail_msg("vCPU %u: no heartbeat", cpu);
            nanosleep(&nap, NULL);
        }
    }
}

static void copy_memory(struct machine *from, struct machine *to)
{
    const struct memory *source = machine_memory(from);
    struct memory *target = machine_memory(to);

    assert_int_equal(source->nregions, target->nregions);
    for (unsigned i = 0; i < source->nregions; i++) {
        assert_int_equal(source->region[i].npages, target->region[i].npages);
        memcpy(target->region[i].hva, source->region[i].hva,
               source->region[i].npages * MEMORY_PAGE_BYTES);
    }
}

static struct machine *hop(const struct kvm *kvm, const struct machine_host *made_for,
                           struct machine *from, struct test_console *console,
                           const struct timespec *nap, test_guest_change *change)
{
    struct machine *to = NULL;
    struct error err = {0};
    size_t fdt_bytes, state_bytes;
    const void *fdt = machine_fdt(from, &fdt_bytes);
    void *state;

    must(machine_create(&to, kvm, fdt, fdt_bytes, made_for, &err), &err);
    must(machine_save(from, &state, &state_bytes, &err), &err);
    copy_memory(from, to);
    if (nap)
        nanosleep(nap, NULL);
    if (change)
        change(&state, &state_bytes);
    must(machine_restore(to, state, state_bytes, &err), &err);
    must(machine_mark_moved(from, &err), &err);
    free(state);
    drain(from, console);
    machine_destroy(from);
    assert_int_equal(machine_state(to), MACHINE_PAUSED);
    return to;
}

struct machine *test_guest_hop_slowly(const struct kvm *kvm, struct machine *from,
                                      struct test_console *console, const struct timespec *nap)
{
    return hop(kvm, &host, from, console, nap, NULL);
}

struct machine *test_guest_hop_to(const struct kvm *kvm, const struct machine_host *made_for,
                                  struct machine *from, struct test_console *console)
{
    return hop(kvm, made_for, from, console, NULL, NULL);
}

struct machine *test_guest_hop(const struct kvm *kvm, struct machine *from,
                               struct test_console *console)
{
    return test_guest_hop_to(kvm, &host, from, console);
}

struct machine *test_guest_hop_changed(const struct kvm *kvm, struct machine *from,
                                       struct test_console *console, test_guest_change *change)
{
    return hop(kvm, &host, from, console, NULL, change);
}
