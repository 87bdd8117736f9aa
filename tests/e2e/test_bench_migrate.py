# SPDX-License-Identifier: MIT
"""bench migrate moves a guest that runs, watches it, and leaves nothing behind. No time is judged."""
import json
import os
import signal
import subprocess
import sys

import harness
from harness import BINARY, check, main, wait_until

GUEST = ("--memory", "64M", "--workload", "dirty set=4M rate=500", "--repeat", "1")


def environment():
    return {**os.environ, "TMPDIR": harness.directory}


def left_over():
    return [name for name in os.listdir(harness.directory) if name.startswith("pageferry-bench")]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def bench(*arguments, code=0):
    done = subprocess.run([BINARY, "bench", "migrate", *arguments], capture_output=True, text=True, timeout=300,
                          check=False, env=environment())
    check(done.returncode == code, f"bench migrate {arguments} exited with {done.returncode}, not {code}: {done.stderr}")
    check(not left_over(), f"left behind: {left_over()}")
    return done.stdout if code == 0 else done.stderr


def measured(*arguments):
    result = json.loads(bench("--json", *arguments))
    for name, value in result["summary"].items():
        check(value["min"] <= value["median"] <= value["max"], f"{name}: {value}")
    return result


def test_engine():
    result = measured("--engine", "--memory", "64M", "--touched", "16M", "--repeat", "2")
    check(len(result["migrations"]) == 2 and result["engine"], f"{result}")
    for row in result["migrations"]:
        check(row["bytes_sent"] >= 16 << 20 and row["total_ns"] and row["raw_bytes_per_s"], f"{row}")
        check(row["target_ram_bytes"] == 16 << 20, f"the destination has more or less than was touched: {row}")


def test_engine_that_is_written_to():
    result = measured("--engine", "--memory", "64M", "--dirty-rate", "20000", "--dirty-set", "8M", "--once",
                      "--downtime-limit", "1ms")
    (row,) = result["migrations"]
    check(row["bytes_sent"] > 64 << 20 and row["rounds"] > 1, f"nothing was sent again: {row}")
    check(0 < row["blackout_ns"] <= row["downtime_ns"], f"the guest ran nowhere for no time, or longer than the source knew: {row}")
    check("raw_bytes_per_s" not in row and row["rounds_ns"] and "commit_ns" in row, f"{row}")
    # RAM that is a file, and several streams: what arrived is compared in the bench.
    measured("--engine", "--memory", "64M", "--dirty-rate", "20000", "--once", "--backing", "memfd", "--streams", "3")
    measured("--engine", "--memory", "64M", "--dirty-rate", "20000", "--once", "--backing", "memfd", "--dirty-random")
    measured("--engine", "--memory", "64M", "--dirty-rate", "20000", "--once", "--backing", "memfd", "--max-bandwidth", "100M")


def test_bad_options():
    for words in (("--touched", "2M"), ("--engine", "--workload", "idle"), ("--repeat", "0", "--engine"),
                  ("--engine", "--memory", "5M"), ("--dirty-rate", "5"), ("--engine", "--dirty-set", "4M"),
                  ("--engine", "--dirty-rate", "5", "--touched", "2M"), ("--engine", "--dirty-rate", "5", "--dirty-set", "5000"),
                  ("--engine", "--dirty-rate", "5", "--dirty-set", "2G"), ("--engine", "--max-bandwidth", "1"),
                  ("--dirty-random",), ("--engine", "--dirty-random"),
                  ("--engine", "--touched", "3M"), ("--backing", "thp"), ("more",),
                  ("--streams", "0")):
        said = bench(*words, code=2)
        check(said.count("\n") == 1, f"{words}: {said!r}")


def test_guest():
    result = measured(*GUEST)
    row = result["migrations"][0]
    check(row["bytes_sent"] and row["downtime_ns"] and row["total_ns"] >= row["downtime_ns"], f"{row}")
    check(row["blackout_ns"], f"the observer saw nothing: {row}")
    check("work_lost" in row and row["target_ram_bytes"] >= 4 << 20, f"{row}")
    check(row["source_cpu_ns"] and row["target_cpu_ns"], f"{row}")


def test_guest_that_cannot_run():
    said = bench("--memory", "64M", "--workload", "juggle", "--repeat", "1", code=1)
    check(said.count("\n") == 1 and "did not run" in said, f"{said!r}")


def test_interrupted():
    """Ctrl-C, and the death of the bench itself: no process is left."""
    for number in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen([BINARY, "bench", "migrate", *GUEST], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=environment())
        found = wait_until(lambda: len(children(process.pid)) >= 2 and children(process.pid), "two processes")
        process.send_signal(number)
        code = process.wait(60)
        check(code == (1 if number == signal.SIGINT else -number), f"it ended with {code}")
        wait_until(lambda: not any(os.path.lexists(f"/proc/{pid}/fd/0") for pid in found), "the end of its processes")
        check(number == signal.SIGKILL or not left_over(), f"left behind: {left_over()}")


def test_engine_interrupted():
    """The same without KVM, in the middle of a long run."""
    for number in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen([BINARY, "bench", "migrate", "--engine", "--memory", "64M", "--repeat", "10000"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        found = wait_until(lambda: children(process.pid), "a process")
        process.send_signal(number)
        code = process.wait(60)
        check(code == (1 if number == signal.SIGINT else -number), f"it ended with {code}")
        wait_until(lambda: not any(os.path.lexists(f"/proc/{pid}/fd/0") for pid in found), "the end of its processes")


if sys.argv[1:] == ["engine"]:
    main(test_engine, test_engine_that_is_written_to, test_engine_interrupted, test_bad_options, kvm=False)
else:
    main(test_guest, test_guest_that_cannot_run, test_interrupted)
