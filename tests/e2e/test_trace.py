# SPDX-License-Identifier: MIT
"""--trace exits: the table at a guest's end and through the control socket, before, during and after a migration."""
import json
import re
import subprocess

from harness import BINARY, Control, check, finish, main, migrate_well, receive, run

TRACED = ("--trace", "exits")
PROBE = 0x5e0
ROW = re.compile(r"^(\s*\S.*?) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", re.M)
HEAD = "KVM exit "


def ctl(control, *words):
    return subprocess.run([BINARY, "ctl", "--control", control, *words], capture_output=True, text=True, check=False)


def table(text):
    """Rows of a table: the exits and values of each."""
    check(text.count(HEAD) == 1, f"not one table: {text}")
    return {row[0].strip(): (int(row[1]), int(row[2])) for row in ROW.findall(text[text.index(HEAD):])}


def accesses(rows, address):
    return sum(values for name, (_, values) in rows.items() if re.match(rf"(in|out) +{address:#x} ", name))


def counted(process):
    """How often the guest accessed the port's counter, by its own word."""
    return int(re.search(rb"counter: OK .* port=(\d+)", process.out)[1])


def test_table_at_the_end():
    process, _ = run("counter", options=TRACED)
    finish(process)
    rows = table(process.err.decode())
    check(accesses(rows, PROBE) == counted(process), f"{rows}, and the guest counted {counted(process)}")
    # What was printed; and the divisor's low byte, which has its place there.
    check(rows["out   0x3f8 serial"][1] == len(process.out) + 1, f"{rows}, and {len(process.out)} bytes were printed")
    check(sum(exits for name, (exits, _) in rows.items() if name.split()[0] in ("in", "out")) == rows["KVM_EXIT_IO"][0],
          f"ports do not add up: {rows}")
    check(sum(exits for name, (exits, _) in rows.items() if name.split()[0] in ("read", "write")) ==
          rows["KVM_EXIT_MMIO"][0], f"pages do not add up: {rows}")


def test_on_demand():
    process, control = run("counter", options=TRACED)
    running = ctl(control, "trace-exits")
    check(running.returncode == 0 and accesses(table(running.stdout), PROBE) > 0, f"{running}")
    check(ctl(control, "stop").returncode == 0, "stop")
    first, again = ctl(control, "trace-exits"), ctl(control, "trace-exits")
    check(first.stdout == again.stdout, "a guest that stands still exits")
    exits = json.loads(ctl(control, "--json", "trace-exits").stdout)
    check(exits["text"] == first.stdout and exits["vcpus"] == 1 and exits["interrupted"] >= 1, f"{exits}")
    rows = table(first.stdout)
    for reason in exits["reasons"]:
        check(rows[reason["name"]] == (reason["exits"], reason["values"]), f"{reason}: {rows}")
        check(0 < reason["max_ns"] <= reason["total_ns"] and reason["mean_ns"] <= reason["max_ns"], f"{reason}")
    ports = [place for place in exits["places"] if place["address"] == PROBE]
    check({place["access"] for place in ports} == {"in", "out"} and {place["window"] for place in ports} == {"probe"},
          f"{ports}")
    check(sum(place["values"] for place in ports) == accesses(rows, PROBE), f"{ports}: {rows}")
    check(ctl(control, "cont").returncode == 0, "cont")
    finish(process)
    check(accesses(table(process.err.decode()), PROBE) == counted(process), "it counts on after a pause")


def test_migration():
    """Each process tells what happened in it; in all, nothing is missing."""
    source, control = run("counter", options=TRACED)
    target, target_control, uri = receive(options=TRACED)
    check("no guest" in Control(target_control).refused("x-trace-exits"), "nothing has arrived")
    migrate_well(control, uri)
    target.wait_error("has arrived")
    check(accesses(table(ctl(target_control, "trace-exits").stdout), PROBE) >= 0, "it counts at the destination")
    moved = accesses(table(ctl(control, "trace-exits").stdout), PROBE)
    check(moved > 0, "what happened here is told after the guest has moved")
    Control(control).command("quit")
    source.expect_exit(0)
    finish(target)
    check(accesses(table(source.err.decode()), PROBE) == moved, "the source's table")
    here = accesses(table(target.err.decode()), PROBE)
    check(moved + here == counted(target), f"{moved} and {here}; the guest counted {counted(target)}")


def test_without():
    process, control = run("idle")
    done = ctl(control, "trace-exits")
    check(done.returncode == 1 and done.stderr.count("\n") == 1 and "--trace exits" in done.stderr, f"{done}")
    finish(process)
    check(HEAD.encode() not in process.err, "nobody asked for a table")
    for command in (("run",), ("receive", "--listen", "tcp:0")):
        done = subprocess.run([BINARY, *command, "--trace", "syscalls"], capture_output=True, text=True, check=False)
        check(done.returncode == 2 and "write exits" in done.stderr, f"{done}")


if __name__ == "__main__":
    main(test_table_at_the_end, test_on_demand, test_migration, test_without)
