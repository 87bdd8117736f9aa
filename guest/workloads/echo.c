/* SPDX-License-Identifier: MIT
 *
 * echo: sends console input back, driven by the UART's interrupt alone: a byte whose interrupt is
 * lost shows as silence. GUEST_FINISH_BYTE as the first byte of a line ends it. */
#include "guest/abi.h"
#include "guest/lib/console.h"
#include "guest/lib/cpu.h"
#include "guest/workloads/workloads.h"

enum { ECHO_HZ };

static const struct param params[] = {
    /* A tick makes a heartbeat, and would hide nothing: input is fetched by its interrupt only. */
    [ECHO_HZ] = {.key = "hz", .type = PARAM_NUMBER, .value = 0, .max = 5000},
    {.key = NULL},
};

/* Takes what has come and sends it back. Returns the number of bytes; *finish at the end. */
static uint64_t drain(bool *line_start, bool *finish)
{
    struct cpu_input *input = &cpu_input;
    uint64_t n = 0;

    while (input->tail != __atomic_load_n(&input->head, __ATOMIC_ACQUIRE)) {
        char c = (char)input->bytes[input->tail % CPU_INPUT_BYTES];

        __atomic_store_n(&input->tail, input->tail + 1, __ATOMIC_RELEASE);
        if (*line_start && c == GUEST_FINISH_BYTE) {
            *finish = true;
            break;
        }
        *line_start = c == '\n' || c == '\r';
        console_write(&c, 1);
        n++;
    }
    return n;
}

static void work(struct run *run, struct worker *worker)
{
    uint64_t hz = run->params.value[ECHO_HZ];
    bool line_start = true;
    bool finish = false;
    uint64_t done = 0;

    /* The others have nothing to do, but must notice the end. */
    if (worker->cpu != 0 && !hz)
        hz = 100;
    if (!hz && run->params.seconds)
        hz = 100;
    if (hz)
        worker_start_timer(worker, hz, CPU_TIMER_LAPIC);
    while (worker_next(worker, run, done)) {
        if (worker->cpu == 0)
            done = drain(&line_start, &finish);
        if (finish)
            __atomic_store_n(&run->stop, 1, __ATOMIC_RELEASE);
        else
            cpu_call(CPU_CALL_WAIT, 0, 0);
    }
}

static void summary(struct run *run)
{
    struct guest_cpu_stats total = run_total(run);

    print("\necho: OK bytes=%lu interrupts=%lu dropped=%lu\n", total.work, cpu_input.interrupts,
          cpu_input.dropped);
}

const struct workload workload_echo = {
    .name = GUEST_WORKLOAD_ECHO,
    .about = "sends console input back",
    .params = params,
    .work = work,
    .summary = summary,
    .takes_input = true,
};
