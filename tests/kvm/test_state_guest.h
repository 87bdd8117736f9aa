/* SPDX-License-Identifier: MIT
 *
 * Machines that run the state guest, told what to do by its mailboxes (state_guest/mailbox.h). */
#ifndef TESTS_KVM_TEST_STATE_GUEST_H
#define TESTS_KVM_TEST_STATE_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "state_guest/mailbox.h"
#include "test_guest.h"

/* A running machine whose CPU 0 takes jobs; the others wait to be started. */
struct machine *state_guest_start(const struct kvm *kvm, unsigned ncpus);
/* INIT and SIPI by CPU 0; returns when the CPU takes jobs. */
void state_guest_start_cpu(struct machine *machine, unsigned cpu);

/* In the RAM of this machine; counters go on by themselves. */
volatile struct state_guest_mailbox *state_guest_mailbox(struct machine *machine, unsigned cpu);

/* Hands a job over and returns its number. */
uint64_t state_guest_post(struct machine *machine, unsigned cpu, enum state_guest_job kind,
                          uint64_t a, uint64_t b);
/* … and waits until it is done; returns the job's result. */
uint64_t state_guest_do(struct machine *machine, unsigned cpu, enum state_guest_job kind,
                        uint64_t a, uint64_t b);
/* Ends a job that waits to be released. */
void state_guest_release(struct machine *machine, unsigned cpu, uint64_t job);

/* Waits until the counter, which lies in a mailbox, is at least `value`. */
void state_guest_await(struct machine *machine, const volatile uint64_t *counter, uint64_t value);
/* Waits until the counter has grown by `more`. */
void state_guest_await_more(struct machine *machine, const volatile uint64_t *counter,
                            uint64_t more);

void state_guest_nap_ms(unsigned ms);

void state_guest_pause(struct machine *machine);
void state_guest_resume(struct machine *machine);
/* Pauses, moves and resumes: state into a new machine, RAM copied. */
struct machine *state_guest_hop(const struct kvm *kvm, struct machine *machine);
/* Moves a paused machine, and resumes. */
struct machine *state_guest_move(const struct kvm *kvm, struct machine *machine);
/* … with a nap between saving and loading. */
struct machine *state_guest_move_slowly(const struct kvm *kvm, struct machine *machine,
                                        unsigned ms);
/* As state_guest_move(), with a change of the saved state before it is loaded. The new machine is
 * paused. */
struct machine *state_guest_move_changed(const struct kvm *kvm, struct machine *machine,
                                         test_guest_change *change);
/* For such a change: a tree with room for new properties takes the state's place. */
void *state_guest_open_tree(void **state, size_t *state_bytes);

/* The first cell of a property of the state that a paused machine would save. */
uint32_t state_guest_saved(struct machine *machine, const char *node, const char *property);

/* Nothing went wrong in the guest that its own counters show. Ends the machine. */
void state_guest_finish(struct machine *machine);

#endif
