# SPDX-License-Identifier: MIT
"""A guest that verifies itself is migrated while it runs, back and forth, and finds no fault.
Usage: test_hops.py [--dirty-log=KIND] [--backing=KIND] [--streams=N] [--compress=KIND] MEMORY CPUS HOPS [PARAMETERS…]; the first two as
for `run` and `receive`, the others as for `migrate`.
"""
import sys

from harness import Control, check, finish, main, migrate_well, receive, run, times

options, ways = [], []
while sys.argv[1].startswith("--"):
    option = sys.argv.pop(1)
    (options if option.startswith(("--dirty-log=", "--backing=")) else ways).append(option)
memory, cpus, hops = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
workload = " ".join(sys.argv[4:]) or "memcheck"


def test_hops():
    here, control = run(workload, memory=memory, cpus=cpus, options=options)
    downtimes = []
    for hop in range(times(hops)):
        there, there_control, uri = receive(options=options)
        result = migrate_well(control, uri, *ways)
        downtimes.append(result["downtime_ns"])
        old = Control(control)
        old.command("quit")
        here.expect_exit(0)
        check(there.alive(), f"the guest ended after hop {hop}")
        here, control = there, there_control
    finish(here)
    verdict = here.out.decode(errors="replace").strip().splitlines()[-1]
    check("OK" in verdict, verdict)
    downtimes.sort()
    print(f"{verdict}; downtime median {downtimes[len(downtimes) // 2] / 1e6:.2f} ms, "
          f"max {downtimes[-1] / 1e6:.2f} ms")


if __name__ == "__main__":
    main(test_hops)
