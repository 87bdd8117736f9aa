# SPDX-License-Identifier: MIT
"""Live snapshots: `migrate file:`, `inspect`, `receive --from`; the file read by an independent reader."""
import json
import os
import re
import signal
import subprocess
import time

from harness import (BINARY, Control, Process, Failure, check, finish, main, migrate, path, receive, run, times,
                     wait_until)
from snapshot_reader import Damaged, Snapshot


def snapshot(control, file, *options):
    code, result, err = migrate(control, f"file:{file}", *options)
    check(code == 0 and result["status"] == "completed", f"migrate exited with {code}: {result} {err}")
    return result


def restore(file, *options):
    """(process, control path) of a restored guest."""
    control = path(f"restored{time.monotonic_ns()}.sock")
    process = Process("receive", "--from", f"file:{file}", "--control", control, *options)
    process.wait_error("the guest has arrived")
    return process, control


def inspect(file, *options):
    return subprocess.run([BINARY, "inspect", *options, file], capture_output=True, text=True, check=False)


def same_as_ram(saved, pid):
    """Compares every page with the memory of the process whose guest stands still."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        ranges = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in maps]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for region in saved.regions:
            length = region.npages * 4096
            for begin, end in ranges:
                if end - begin >= length and matches(saved, region, memory, begin):
                    break
            else:
                raise Failure(f"no mapping of the process holds what the file says of the region at {region.gpa:#x}")


def matches(saved, region, memory, begin):
    for number in range(region.npages):
        memory.seek(begin + number * 4096)
        if memory.read(4096) != saved.page(region, number):
            return False
    return True


def test_snapshot_and_restore():
    """The file is what the stopped guest holds, to the last page; both guests' own checks pass afterwards."""
    file = path("guest.snap")
    process, control = run("memcheck set=2M rate=2000", "16M")
    watcher = Control(control)
    result = snapshot(control, file, "--stop")
    check(watcher.status() == "paused" and "STOP" in [event["event"] for event in watcher.events], f"{watcher.events}")
    check(result["guest"] == "paused", f"the guest is {result['guest']} after --stop")
    saved = Snapshot(file)
    check(saved.running, "the guest was running")
    same_as_ram(saved, process.pid)
    saved.verify_pages()
    shown = json.loads(inspect(file, "--json").stdout)
    check((shown["pages"]["data"], shown["pages"]["zero"]) == saved.counts() and shown["status"] == "whole",
          f"inspect and the reader differ: {shown['pages']} {saved.counts()}")
    check(shown["allocated_bytes"] < 4096 * shown["pages"]["data"] + 2 ** 20, f"not sparse: {shown}")
    check(os.stat(file).st_mode & 0o777 == 0o600, "others can read the guest's memory")
    saved.close()
    Control(control).command("cont")
    copy, _ = restore(file)
    finish(copy)
    finish(process)


def test_the_guest_runs_on():
    """Snapshots of a guest that never stops, one over the other; each can be restored, paused too."""
    file = path("again.snap")
    process, control = run("memcheck", "32M", 2)
    for _ in range(times(3)):
        result = snapshot(control, file)
        check(result["guest"] == "running", f"the guest is {result['guest']}")
    copy, copied = restore(file, "--paused")
    client = Control(copied)
    check(client.status() == "paused", f"--paused: the guest is {client.status()}")
    client.command("cont")
    again, uri = receive()[0::2]
    code, moved, err = migrate(copied, uri)
    check(code == 0, f"a restored guest does not migrate: {moved} {err}")
    finish(again)
    finish(process)
    check(os.listdir(os.path.dirname(file)).count("again.snap") == 1 and
          not [name for name in os.listdir(os.path.dirname(file)) if name.startswith(".pageferry")], "left-overs")


def test_paused_and_unstarted():
    file = path("paused.snap")
    process, control = run("counter", "16M")
    client = Control(control)
    client.command("stop")
    check(snapshot(control, file)["guest"] == "paused", "a paused guest stays paused")
    copy, copied = restore(file)
    check(Control(copied).status() == "paused", "a guest that was saved paused arrives paused")
    client.command("cont")
    Control(copied).command("cont")
    finish(copy)
    finish(process)
    _, unborn = run("idle", "16M", options=("--paused",), wait=None)
    code, _, err = migrate(unborn, f"file:{file}")
    check(code == 1 and "never started" in err, f"a guest that was never started: {code} {err}")
    _, _, err = migrate(unborn, f"file:{file}", "--check")
    check("nothing to check" in err, f"--check of a file: {err}")


def test_cancelled():
    """Ctrl-C leaves the old file, no other, and a guest that runs."""
    file = path("old.snap")
    with open(file, "w", encoding="utf-8") as old:
        old.write("old")
    process, control = run("idle fill=8M", "16M")
    command = Process("migrate", "--control", control, "--max-bandwidth", "1M", f"file:{file}")
    client = Control(control)
    wait_until(lambda: client.command("query-migrate").get("ram", {}).get("transferred", 0) > 0, "pages")
    command.popen.send_signal(signal.SIGINT)
    command.expect_exit(1)
    check(client.status() == "running", "the guest runs on")
    with open(file, encoding="utf-8") as old:
        check(old.read() == "old", "the old file was touched")
    check(not [name for name in os.listdir(os.path.dirname(file)) if name.startswith(".pageferry")], "left-overs")
    finish(process)


def test_disk_full():
    """A file system that is too small: the old file is whole, the guest runs, a second try elsewhere works."""
    small = path("small")
    os.mkdir(small)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", small], check=False,
                                           capture_output=True).returncode:
        print("  not tested: this user may not mount a tmpfs")
        return
    try:
        with open(f"{small}/old.snap", "w", encoding="utf-8") as old:
            old.write("old")
        process, control = run("idle fill=4M", "16M")
        code, result, err = migrate(control, f"file:{small}/old.snap")
        check(code == 1 and re.search(r"in round 0: .*writing at byte \d+: No space left", err), f"{code} {result} {err}")
        check(os.listdir(small) == ["old.snap"] and os.stat(f"{small}/old.snap").st_size == 3, "the old file")
        check(Control(control).status() == "running", "the guest runs on")
        snapshot(control, path("elsewhere.snap"))
        finish(process)
    finally:
        subprocess.run(["umount", small], check=False)


def one_line(done, pattern):
    check(done.returncode == 1 and done.stderr.count("\n") == 1 and re.search(pattern, done.stderr),
          f"exit {done.returncode}: {done.stderr!r}, not /{pattern}/")


def test_damaged():
    file = path("damaged.snap")
    process, control = run("idle fill=1M", "16M")
    snapshot(control, file)
    finish(process)
    size = os.stat(file).st_size
    saved = Snapshot(file)
    first = next(region.offset + 4096 * n for region in saved.regions for n in range(region.npages)
                 if region.data >> n & 1)
    for at in (300, first, saved.map_at, size - 1):
        with open(file, "r+b") as opened:
            opened.seek(at)
            byte = opened.read(1)
            opened.seek(at)
            opened.write(bytes([byte[0] ^ 1]))
        one_line(inspect(file), r"damaged\.snap: at byte \d+: .*checksum")
        try:
            Snapshot(file).verify_pages()
            raise Failure(f"the reader does not see the damage at {at}")
        except Damaged:
            pass
        with open(file, "r+b") as opened:
            opened.seek(at)
            opened.write(byte)
    check(inspect(file).returncode == 0, "undone, it is whole")
    os.truncate(file, size - 100)
    one_line(inspect(file), rf"ends at byte {size - 100}")
    one_line(subprocess.run([BINARY, "receive", "--from", f"file:{file}", "--serial", "null"], capture_output=True,
                            text=True, check=False), rf"the restore failed: .*ends at byte {size - 100}")
    one_line(inspect(path("none")), "none: No such file")


if __name__ == "__main__":
    main(test_snapshot_and_restore, test_the_guest_runs_on, test_paused_and_unstarted, test_cancelled, test_disk_full,
         test_damaged)
