# SPDX-License-Identifier: MIT
"""Each way to track dirty pages moves a guest that checks itself; rings run full and are emptied; what cannot be is
refused, and the guest goes on."""
import json
import subprocess

from harness import BINARY, EFFORT, Control, check, finish, main, migrate, migrate_well, receive, run, wait_until


def offered():
    info = json.loads(subprocess.run([BINARY, "info", "--json"], capture_output=True, check=True).stdout)
    return info["dirty_log"]


def hop(here, control, options=(), receiver=()):
    """Moves the guest on; (receiver process, its control, result)."""
    there, there_control, uri = receive(options=receiver)
    result = migrate_well(control, uri, *options)
    Control(control).command("quit")
    here.expect_exit(0)
    return there, there_control, result


def test_get_and_clear():
    here, control = run("memcheck set=16M", cpus=2)
    for kind in [k for k in ("get", "clear", "get") if k in offered()["backends"]] + ["auto"]:
        here, control, result = hop(here, control, ("--dirty-log", kind))
        check(kind in ("auto", result["dirty_log"]), f"asked for {kind}, got {result['dirty_log']}")
    check(result["dirty_log"] == offered()["chosen"], f"auto took {result['dirty_log']}")
    finish(here)
    check(b"memcheck: OK" in here.out, "no verdict")


def test_chunks():
    here, control = run("memcheck set=16M")
    for chunk in ("64", "448", "1M"):
        here, control, _ = hop(here, control, ("--chunk", chunk))
    finish(here)


def need_ring():
    if "ring" not in offered()["backends"]:
        print("no dirty ring on this host")
        return False
    return True


def smallest():
    """A ring that is full soon, where the host has some that small."""
    return max(offered()["ring_min_entries"], 1024)


def test_ring():
    """From ring to ring, to a bitmap and back; small rings run full again and again."""
    if not need_ring():
        return
    ring = f"ring:{smallest()}"
    here, control = run("memcheck set=24M rate=8000", cpus=2, options=("--dirty-log", ring))
    here, control, result = hop(here, control, receiver=("--dirty-log", ring))
    check(result["dirty_log"] == "ring", f"{result['dirty_log']}")
    # A slow link gives the guest time to fill its rings.
    here, control, result = hop(here, control, ("--max-bandwidth", "64M"))
    check(result["ring_full_exits"] > 0 or EFFORT < 100, "no ring was ever full")
    here, control, result = hop(here, control, receiver=("--dirty-log", "ring"))
    check(result["dirty_log"] == offered()["chosen"], f"{result['dirty_log']}")
    here, control, result = hop(here, control, ("--dirty-log", "ring"))
    finish(here)
    check(b"memcheck: OK" in here.out, "no verdict")


def test_pause_while_full():
    """Pauses find vCPUs whose ring is full, or just about to be."""
    if not need_ring():
        return
    here, control = run("memcheck set=24M", cpus=2, options=("--dirty-log", f"ring:{smallest()}"))
    _, _, uri = receive()
    user = Control(control)
    user.command("migrate-set-parameters", **{"max-bandwidth": 1 << 20})
    user.command("migrate", uri=uri)
    wait_until(lambda: user.command("query-migrate")["status"] == "active", "the rounds")
    for _ in range(50):
        user.command("stop")
        check(user.status() == "paused", user.status())
        user.command("cont")
    user.command("migrate_cancel")
    wait_until(lambda: user.command("query-migrate")["status"] == "cancelled", "the end")
    user.command("migrate-set-parameters", **{"max-bandwidth": 0})
    there, _, _ = hop(here, control)
    finish(there)
    check(b"memcheck: OK" in there.out, "no verdict")


def test_refused():
    """What a guest's VM cannot do is said, and the guest runs on."""
    _, control = run("memcheck")
    _, _, uri = receive()
    user = Control(control)
    if need_ring():
        code, _, err = migrate(control, uri, "--dirty-log", "ring")
        check(code == 1 and "chosen when the guest is started" in err, f"{code} {err}")
        check(user.status() == "running", user.status())
        ringed, ring_control = run("memcheck", options=("--dirty-log", "ring"))
        for kind in ("get", "clear"):
            code, _, err = migrate(ring_control, uri, "--dirty-log", kind)
            check(code == 1 and "started with a dirty ring" in err, f"{code} {err}")
        check(Control(ring_control).status() == "running", "the guest does not run")
        finish(ringed)
    for options, what in ((("--dirty-log", "bitmap"), "auto, get, clear or ring"), (("--chunk", "63"), "multiple of 64"),
                          (("--chunk", "0"), "multiple of 64"), (("--chunk", "2M"), "multiple of 64")):
        code, _, err = migrate(control, uri, *options)
        check(code in (1, 2) and what in err, f"{options}: {code} {err}")
    user.refused("migrate-set-parameters", **{"x-dirty-log": 1})
    user.refused("migrate-set-parameters", **{"x-chunk-pages": 65})


def test_bad_options():
    for command in ("run", "receive"):
        more = () if command == "run" else ("--listen", "tcp:0")
        for kind, what in (("get", "migrate --dirty-log"), ("rings", "ring:ENTRIES"), ("ring:", "not a size"),
                           ("ring:1000", "power of two"), ("ring:1", "power of two"), ("ring:1G", "power of two"),
                           ("ring:0", "power of two")):
            if kind.startswith("ring:") and kind != "ring:" and not need_ring():
                continue
            done = subprocess.run([BINARY, command, *more, "--dirty-log", kind], capture_output=True, text=True,
                                  check=False, timeout=60)
            check(done.returncode == 2 and what in done.stderr and done.stderr.count("\n") == 1,
                  f"{command} --dirty-log {kind}: {done.returncode} {done.stderr}")


if __name__ == "__main__":
    main(test_get_and_clear, test_chunks, test_ring, test_pause_while_full, test_refused, test_bad_options)
