/* SPDX-License-Identifier: MIT
 *
 * For tests on real KVM: machines that run the project's test guest, and what they printed. */
#ifndef TESTS_KVM_TEST_GUEST_H
#define TESTS_KVM_TEST_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "guest/abi.h"
#include "vmm/machine.h"

/* What ends a wait that should have ended long before: a failure, never a measurement. */
#define TEST_GUEST_PATIENCE_MS 60000

struct test_console {
    char text[256 * 1024]; /* NUL-terminated */
    size_t bytes;
};

/* Opens /dev/kvm, or ends the process with 77 and the reason. */
void test_guest_open_kvm(struct kvm *kvm);

/* A machine of the host's CPU with this command line, created; with the test guest loaded or
 * without anything, as a destination is. Fails the test on any error. */
struct machine *test_guest_create(const struct kvm *kvm, unsigned ncpus, uint64_t memory_bytes,
                                  const char *bootargs, bool load);
/* As above, with what the machine is built with here. */
struct machine *test_guest_create_on(const struct kvm *kvm, const struct machine_host *made_for,
                                     unsigned ncpus, uint64_t memory_bytes, const char *bootargs,
                                     bool load);

/* Pumps the console until the text appears in it, or the guest stops (false). */
bool test_guest_wait_text(struct machine *machine, struct test_console *console, const char *text);
/* Pumps the console until there is more of it, or the guest stops (false). */
bool test_guest_wait_more(struct machine *machine, struct test_console *console);
/* Waits for machine_event_fd() alone; the console stays unread. */
void test_guest_wait_event(struct machine *machine, const struct test_console *console);
/* Pumps the console until the guest stops; returns how it ended. */
const struct machine_exit *test_guest_wait_exit(struct machine *machine,
                                                struct test_console *console);
/* Types the finish byte, waits for the end, and expects GUEST_EXIT_OK. */
void test_guest_finish(struct machine *machine, struct test_console *console);

/* The statistics page, in guest RAM. */
const volatile struct guest_stats *test_guest_stats(struct machine *machine);
/* Waits until every vCPU's heartbeat has grown by `beats` from now on. */
void test_guest_wait_beats(struct machine *machine, uint64_t beats);

/* Moves a paused guest into a new machine of the same tree: state by machine_save() and
 * machine_restore(), RAM by copying. The old one is destroyed; the new one is paused. */
struct machine *test_guest_hop(const struct kvm *kvm, struct machine *from,
                               struct test_console *console);
struct machine *test_guest_hop_to(const struct kvm *kvm, const struct machine_host *made_for,
                                  struct machine *from, struct test_console *console);
/* As above, with a nap between saving and loading. */
struct machine *test_guest_hop_slowly(const struct kvm *kvm, struct machine *from,
                                      struct test_console *console, const struct timespec *nap);
/* As test_guest_hop(), with a change of the saved state; `change` may replace what it is given,
 * which is freed with free(). */
typedef void test_guest_change(void **state, size_t *state_bytes);
struct machine *test_guest_hop_changed(const struct kvm *kvm, struct machine *from,
                                       struct test_console *console, test_guest_change *change);

#endif
