/* SPDX-License-Identifier: MIT
 *
 * A name server that does not answer: the look-up is given up, and what it finds later harms
 * nobody. libc's getaddrinfo() is replaced by a slow one. */
#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/uri_resolve.h"
#include "vmm/base/clock.h"

#define SLOW_NS (500 * CLOCK_NS_PER_MS)

static unsigned lookups_ended; /* atomic */

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict list)
{
    (void)service;
    (void)hints;
    *list = NULL;
    if (strcmp(name, "slow.example") == 0)
        (void)usleep(SLOW_NS / 1000);
    __atomic_add_fetch(&lookups_ended, 1, __ATOMIC_RELEASE);
    return strcmp(name, "no.example") == 0 ? EAI_NONAME : 0;
}

static void await_lookups(unsigned count)
{
    while (__atomic_load_n(&lookups_ended, __ATOMIC_ACQUIRE) < count)
        (void)usleep(1000);
    lookups_ended = 0;
}

static int resolve(const char *host, uint64_t within_ns, int cancel_fd, struct error *err)
{
    struct addrinfo *list = NULL;

    return uri_resolve(host, "1", false, clock_now_ns() + within_ns, cancel_fd, &list, err);
}

static void test_given_up_at_the_deadline(void **state)
{
    struct error err = {.text = ""};
    uint64_t begin = clock_now_ns();

    (void)state;
    assert_int_equal(resolve("slow.example", 50 * CLOCK_NS_PER_MS, -1, &err), -ETIMEDOUT);
    assert_true(clock_now_ns() - begin < SLOW_NS);
    assert_non_null(strstr(err.text, "slow.example"));
    await_lookups(1);
}

static void test_given_up_when_cancelled(void **state)
{
    struct error err = {.text = ""};
    int cancel_fd = eventfd(1, EFD_CLOEXEC);

    (void)state;
    assert_int_equal(resolve("slow.example", 60 * CLOCK_NS_PER_SEC, cancel_fd, &err), -ECANCELED);
    await_lookups(1);
    (void)close(cancel_fd);
}

static void test_answers(void **state)
{
    struct error err = {.text = ""};

    (void)state;
    assert_int_equal(resolve("slow.example", 60 * CLOCK_NS_PER_SEC, -1, &err), 0);
    assert_int_equal(resolve("no.example", 60 * CLOCK_NS_PER_SEC, -1, &err), -EHOSTUNREACH);
    assert_non_null(strstr(err.text, "'no.example' cannot be resolved"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_up_at_the_deadline),
        cmocka_unit_test(test_given_up_when_cancelled),
        cmocka_unit_test(test_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
