/* SPDX-License-Identifier: MIT
 *
 * The yardstick: a plain send/recv of a cold buffer over TCP loopback into fresh memory, two
 * processes. Prints bytes and nanoseconds from the first byte sent to the last byte received.
 *
 * usage: raw_copy MIB [thp]
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm/base/clock.h"

#define CALL_BYTES  (1u << 20)
#define HUGE_BYTES  (2u << 20)
#define WORD_STRIDE 8u

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint8_t *fresh_memory(size_t bytes, int thp)
{
    uint8_t *memory = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        die("mmap");
    memory += HUGE_BYTES - (uintptr_t)memory % HUGE_BYTES;
    if (madvise(memory, bytes, thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
        die("madvise");
    return memory;
}

static void receive_all(int fd, uint8_t *memory, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        ssize_t got =
            recv(fd, memory + done, CALL_BYTES < bytes - done ? CALL_BYTES : bytes - done, 0);

        if (got <= 0)
            die("recv");
        done += (size_t)got;
    }
    if (send(fd, "k", 1, 0) != 1)
        die("send");
}

static void send_all(int fd, const uint8_t *memory, size_t bytes)
{
    size_t done = 0;
    char ok;

    while (done < bytes) {
        ssize_t put =
            send(fd, memory + done, CALL_BYTES < bytes - done ? CALL_BYTES : bytes - done, 0);

        if (put <= 0)
            die("send");
        done += (size_t)put;
    }
    if (recv(fd, &ok, 1, 0) != 1)
        die("recv");
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    size_t bytes = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) << 20 : 0;
    int thp = argc > 2 && strcmp(argv[2], "thp") == 0;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    uint64_t begin, end;
    uint8_t *memory;
    pid_t child;
    int fd;

    if (!bytes) {
        (void)fprintf(stderr, "usage: raw_copy MIB [thp]\n");
        return 2;
    }
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        die("listen");
    child = fork();
    if (child == 0) {
        fd = accept(listener, NULL, NULL);
        if (fd < 0)
            die("accept");
        receive_all(fd, fresh_memory(bytes, thp), bytes);
        return 0;
    }
    memory = fresh_memory(bytes, thp);
    for (size_t i = 0; i < bytes / WORD_STRIDE; i++)
        ((uint64_t *)(void *)memory)[i] = i * 0x9e3779b97f4a7c15ull + 1;
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, length))
        die("connect");
    begin = clock_now_ns();
    send_all(fd, memory, bytes);
    end = clock_now_ns();
    (void)waitpid(child, NULL, 0);
    printf("{\"bytes\": %zu, \"ns\": %llu}\n", bytes, (unsigned long long)(end - begin));
    return 0;
}
