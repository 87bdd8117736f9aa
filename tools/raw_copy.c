/* SPDX-License-Identifier: MIT */
#include "tools/raw_copy.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/bench_child.h"
#include "tools/bench_warm.h"
#include "vmm/base/clock.h"

#define CALL_BYTES (1u << 20)
#define HUGE_BYTES (2u << 20)

static uint8_t *fresh_memory(uint64_t bytes, bool huge)
{
    uint8_t *memory = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    memory += HUGE_BYTES - (uintptr_t)memory % HUGE_BYTES;
    return madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) ? NULL : memory;
}

/* 0, or -errno. */
static int receive_all(int fd, uint8_t *memory, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        uint64_t left = bytes - done;
        ssize_t got = recv(fd, memory + done, CALL_BYTES < left ? CALL_BYTES : left, 0);

        if (got <= 0)
            return got ? -errno : -ECONNRESET;
        done += (uint64_t)got;
    }
    return send(fd, "k", 1, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

static int send_all(int fd, const uint8_t *memory, uint64_t bytes)
{
    char ok;

    for (uint64_t done = 0; done < bytes;) {
        uint64_t left = bytes - done;
        ssize_t put = send(fd, memory + done, CALL_BYTES < left ? CALL_BYTES : left, MSG_NOSIGNAL);

        if (put <= 0)
            return -errno;
        done += (uint64_t)put;
    }
    return recv(fd, &ok, 1, 0) == 1 ? 0 : -ECONNRESET;
}

struct copy {
    struct bench_listener *listener;
    uint64_t bytes;
    bool huge;
};

struct copy_result {
    uint64_t ns;
    int code; /* 0 or -errno */
};

static void receiver_main(void *opaque, void *result)
{
    const struct copy *copy = opaque;
    struct copy_result *done = result;
    uint8_t *memory = fresh_memory(copy->bytes, copy->huge);
    int fd = bench_accept(copy->listener);

    done->code = fd < 0 ? fd : memory ? 0 : -ENOMEM;
    if (done->code)
        return;
    bench_warm(copy->bytes);
    done->code = bench_tell_go(fd);
    if (!done->code)
        done->code = receive_all(fd, memory, copy->bytes);
}

static void sender_main(void *opaque, void *result)
{
    const struct copy *copy = opaque;
    struct copy_result *done = result;
    uint8_t *memory = fresh_memory(copy->bytes, copy->huge);
    uint64_t begin;
    int fd;

    if (memory)
        bench_fill(memory, copy->bytes, 0);
    fd = bench_connect(copy->listener);
    done->code = fd < 0 ? fd : memory ? bench_await_go(fd) : -ENOMEM;
    if (done->code)
        return;
    begin = clock_now_ns();
    done->code = send_all(fd, memory, copy->bytes);
    done->ns = clock_now_ns() - begin;
}

int raw_copy(uint64_t bytes, bool huge, uint64_t *ns, struct error *err)
{
    struct bench_listener listener;
    struct copy copy = {.listener = &listener, .bytes = bytes, .huge = huge};
    struct bench_child receiver, sender;
    struct copy_result received = {0}, sent = {0};
    int rc = bench_listen(&listener, err);

    if (rc)
        return rc;
    rc = bench_child_start(&receiver, receiver_main, &copy, sizeof(received), err);
    if (!rc) {
        rc = bench_child_start(&sender, sender_main, &copy, sizeof(sent), err);
        if (!rc)
            rc = bench_child_finish(&sender, &sent, err);
        if (!rc)
            rc = bench_child_finish(&receiver, &received, err);
        else
            bench_child_kill(&receiver);
    }
    (void)close(listener.fd);
    if (!rc && (sent.code || received.code))
        rc = error_set(err, sent.code ? -sent.code : -received.code, "the raw copy: %s",
                       strerror(sent.code ? -sent.code : -received.code));
    if (!rc)
        *ns = sent.ns;
    return rc;
}
