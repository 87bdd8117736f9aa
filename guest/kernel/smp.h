/* SPDX-License-Identifier: MIT
 *
 * The other CPUs: INIT and SIPI through the local APIC (Intel SDM volume 3, 8.4.4). */
#ifndef GUEST_KERNEL_SMP_H
#define GUEST_KERNEL_SMP_H

/* Starts CPUs 1 to boot_info.ncpus - 1, whose APIC ids are their numbers; each goes to ring 3 by
 * itself. One that does not answer ends the guest with GUEST_EXIT_NO_DEVICE. Boot CPU, once. */
void smp_start(void);

/* kernel_main's and smp_entry's last act: this CPU goes to ring 3 for good. */
void smp_enter_user(unsigned cpu) __attribute__((noreturn));

#endif
