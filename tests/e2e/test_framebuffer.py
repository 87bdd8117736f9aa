# SPDX-License-Identifier: MIT
"""A guest that draws on its frame buffer migrates with it, on every backing and with RAM on both sides of the gap."""
import json
import re
import subprocess

from harness import BINARY, EFFORT, Control, Process, check, finish, main, migrate_well, receive, run

GPA, BYTES = 0xe0000000, 16 << 20
HUGE_BYTES = 2 << 20
HOPS = 2 if EFFORT >= 100 else 1
SLOWLY = ("--max-bandwidth", "48M")


def regions(control):
    client = Control(control)
    found = [(r["gpa"], r["bytes"]) for r in client.command("x-memory-map")["regions"]]
    client.close()
    return found


def hop(memory, cpus, workload, options, ranges, *limits):
    here, control = run(workload, memory, cpus, ("--framebuffer", *options))
    for _ in range(HOPS):
        check(regions(control) == ranges, f"{regions(control)}, not {ranges}")
        there, there_control, uri = receive(options=options)
        migrate_well(control, uri, *limits)
        Control(control).command("quit")
        here.expect_exit(0)
        here, control = there, there_control
    finish(here)
    verdict = here.out.decode(errors="replace").strip().splitlines()[-1]
    check(": OK " in verdict, verdict)
    print(f"  {memory} {' '.join(options)} {workload}: {verdict}")


def huge_pages_free():
    with open("/proc/meminfo", encoding="ascii") as file:
        found = re.search(r"HugePages_Free:\s+(\d+)", file.read())
    return int(found.group(1)) if found else 0


def available():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(re.search(r"MemAvailable:\s+(\d+)", file.read()).group(1)) << 10


def test_every_backing():
    ranges = [(0, 64 << 20), (GPA, BYTES)]
    for backing in "anon", "thp", "memfd":
        # Slowly, so that there are frames to be drawn in several rounds.
        hop("64M", 2, "fb rate=100", ("--backing", backing), ranges, *SLOWLY)
    if huge_pages_free() >= 2 * (sum(r[1] for r in ranges) // HUGE_BYTES):
        hop("64M", 2, "fb rate=100", ("--backing", "hugetlb"), ranges, *SLOWLY)
    else:
        print("  hugetlb not tested: no huge pages are reserved")


def test_dirty_ring():
    """A ring lists pages by slot and offset: the frame buffer is another slot."""
    info = json.loads(subprocess.run([BINARY, "info", "--json"], capture_output=True, check=True).stdout)
    if "ring" not in info["dirty_log"]["backends"]:
        print("  not tested: no dirty ring on this host")
        return
    hop("64M", 2, "fb rate=100", ("--dirty-log", "ring"), [(0, 64 << 20), (GPA, BYTES)], *SLOWLY)


def test_every_scene():
    for scene in "cursor", "type", "scroll", "window", "full":
        hop("64M", 1, f"fb scene={scene}", (), [(0, 64 << 20), (GPA, BYTES)])


def test_beside_all_ram():
    """Above 3 GiB the frame buffer is the third region; RAM up to the gap and behind it stays intact."""
    gib = 1 << 30
    if available() < 6 * gib:
        print("  not tested: this host has less than 6 GiB of memory available")
        return
    hop("5G", 2, "fb rate=60", (), [(0, 3 * gib), (4 * gib, 2 * gib), (GPA, BYTES)])
    hop("3G", 1, "memcheck set=64M stride=0", ("--backing", "anon"), [(0, 3 * gib), (GPA, BYTES)])
    hop("3076M", 1, "memcheck set=64M stride=0", ("--backing", "anon"),
        [(0, 3 * gib), (4 * gib, 4 << 20), (GPA, BYTES)])


def test_is_no_ram():
    """The guest counts as RAM what it had without a frame buffer."""
    said = []
    for options in (), ("--framebuffer",):
        process = Process("run", *options)
        process.expect_exit(0)
        said.append(bytes(process.out))
    check(said[0] == said[1], f"{said[0]} became {said[1]}")


def test_is_found_out():
    process = Process("run", "--append", "fb")
    process.expect_exit(33)
    check(b"--framebuffer" in process.out, f"no advice: {process.out}")
    for sabotage in "pixel", "stale", "table", "behind":
        process = Process("run", "--framebuffer", "--append", f"fb seconds=1 sabotage={sabotage}")
        process.expect_exit(41)
        check(b"fb: FAULT" in process.out, f"{sabotage}: {process.out}")


if __name__ == "__main__":
    main(test_every_backing, test_dirty_ring, test_every_scene, test_beside_all_ram, test_is_no_ram,
         test_is_found_out)
