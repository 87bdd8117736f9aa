# SPDX-License-Identifier: MIT
"""A running guest moves between two processes, over every kind of link, and both sides say what is true."""
import os
import shlex
import signal
import socket
import subprocess
import time

from harness import (BINARY, Control, check, fds_of, finish, lasting, main, migrate, migrate_well, path, receive, run,
                     threads_of, times, wait_until)


def test_tcp():
    source, control = run("memcheck")
    target, target_control, uri = receive()
    result = migrate_well(control, uri)
    for key in ("status", "total_ns", "setup_ns", "downtime_ns", "rounds", "bytes_sent",
                "bandwidth_bytes_per_s"):
        check(key in result, f"no {key} in {result}")
    check(0 < result["downtime_ns"] < result["total_ns"], f"downtime {result}")
    for key in ("dirty_pages", "sent_bytes", "ns"):
        check(key in result["rounds"][0], f"no {key} in {result['rounds'][0]}")
    check(result["bytes_sent"] >= sum(r["sent_bytes"] for r in result["rounds"]), "bytes_sent")
    there, here = Control(target_control), Control(control)
    check(there.status() == "running", "the destination does not run")
    check(here.status() == "postmigrate", here.status())
    check(here.command("query-migrate")["status"] == "completed", "query-migrate")
    for refused in ("cont", "migrate"):
        here.refused(refused, **({"uri": uri} if refused == "migrate" else {}))
    check(here.status() == "postmigrate", "a refused cont changed the state")
    here.command("quit")
    source.expect_exit(0)
    check(b"moved to" in source.err, "the source does not say where the guest went")
    finish(target)
    check(b"memcheck: OK" in target.out, "no verdict")


def test_unix():
    source, control = run("memcheck")
    target, _, uri = receive(f"unix:{path('link')}")
    migrate_well(control, uri)
    finish(target)
    source.kill()


def test_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        print(f"no IPv6 loopback here: {error}")
        return
    _, control = run("memcheck")
    target, _, uri = receive("tcp:[::1]:0")
    migrate_well(control, uri)
    finish(target)


def test_exec_and_stdio():
    """Two hosts are one ssh away; here the remote shell is a local one."""
    source, control = run(f"memcheck set=8M seconds={lasting(3)}")
    log = path("remote.log")
    remote = f"{shlex.quote(BINARY)} receive --stdio --serial file:{shlex.quote(log)}"
    migrate_well(control, f"exec:sh -c {shlex.quote(remote)}")

    def verdict():
        try:
            with open(log, "rb") as file:
                return b"memcheck: OK" in file.read()
        except OSError:
            return False
    wait_until(verdict, "the verdict of the guest behind exec:")
    Control(control).command("quit")
    source.expect_exit(0)


def test_exec_survives_the_terminal():
    """Ctrl-C or a hang-up where the source runs is not for the command that carries the guest."""
    control, there = path("source.sock"), path("there.sock")
    source = subprocess.Popen([BINARY, "run", "--append", "memcheck set=8M rate=1000", "--control", control],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    source.stdout.readline()
    migrate_well(control, f"exec:{shlex.quote(BINARY)} receive --stdio --control {shlex.quote(there)}")
    os.killpg(source.pid, signal.SIGINT)
    check(source.wait(20) == 128 + signal.SIGINT, "the source's status")
    check(Control(there).status() == "running", "the guest died with its source")
    Control(there).command("quit")


def test_exec_leaves_nothing_behind():
    _, control = run("memcheck")
    commands = ("sleep 98731", "(sleep 98733 &); exit 1", "trap '' TERM; sleep 98734", "sleep 98732; true")
    for command in commands[:max(2, times(4))]:
        code, result, err = migrate(control, f"exec:{command}")
        check(code == 1, f"{command}: {code} {result} {err}")
        # Killed with its group, but only the leader is waited for.
        wait_until(lambda: subprocess.run(["pgrep", "-f", "sleep 9873"], stdout=subprocess.DEVNULL,
                                          check=False).returncode == 1, f"all of {command} to be gone", 10)
    check(Control(control).status() == "running", "the guest does not run")


def test_fd():
    source, control = run("memcheck")
    ours, theirs = socket.socketpair()
    target = subprocess.Popen([BINARY, "receive", "--stdio", "--control", path("fd.sock")],
                              stdin=theirs, stdout=theirs)
    theirs.close()
    done = subprocess.run([BINARY, "migrate", "--control", control, "--json", f"fd:{ours.fileno()}"],
                          pass_fds=[ours.fileno()], capture_output=True, timeout=60, check=False)
    ours.close()
    check(done.returncode == 0, done.stderr.decode())
    there = Control(path("fd.sock"))
    wait_until(lambda: there.status() == "running", "the guest behind fd:")
    there.command("quit")
    check(target.wait(20) == 0, "the receiver's status after quit")
    source.kill()


def test_paused_arrives_paused():
    _, control = run("memcheck")
    here = Control(control)
    here.command("stop")
    check(here.status() == "paused", here.status())
    target, target_control, uri = receive()
    migrate_well(control, uri)
    there = Control(target_control)
    check(there.status() == "paused", f"arrived {there.status()}")
    there.command("cont")
    check(there.status() == "running", there.status())
    finish(target)


def test_check_sends_no_page():
    source, control = run("memcheck")
    target, target_control, uri = receive()
    code, result, err = migrate(control, uri, "--check")
    check(code == 0, f"--check exited with {code}: {err}")
    check(Control(target_control).status() == "inmigrate", "the receiver is not waiting any more")
    check(Control(control).status() == "running", "the source was touched")
    check(target.alive(), "the receiver ended after a check")
    migrate_well(control, uri)
    finish(target)
    source.kill()


def test_check_says_what_would_refuse():
    _, control = run("memcheck")
    target, _, uri = receive(options=("--backing", "hugetlb"))
    code, result, err = migrate(control, uri, "--check")
    check(code == 1 and "huge pages" in err + str(result), f"exit {code}: {err} {result}")
    check(Control(control).status() == "running", "the source was touched")
    check(target.alive(), "a mere question ended the receiver")


def test_nothing_is_left():
    """What a finished migration leaves: at the source no KVM descriptor and one thread, at the destination what any
    running guest has; and no memory at the source."""
    source, control = run("memcheck")
    fresh = (threads_of(source.pid), len(fds_of(source.pid)))
    target, _, uri = receive()
    migrate_well(control, uri)
    wait_until(lambda: threads_of(source.pid) == 1, "the source's threads to end")
    # One empty VM stays open: it makes creating and closing the others cheap (vmm/kvm.h).
    left = [fd for fd in fds_of(source.pid) if "kvm-v" in fd]
    check(left == ["anon_inode:kvm-vm"], f"the source still holds {left}")
    with open(f"/proc/{source.pid}/statm", encoding="ascii") as statm:
        check(int(statm.read().split()[1]) * 4096 < 24 << 20, "the source still holds guest RAM")
    # The source has its control connections and its eventfds, the destination its listener: compare by kind.
    kinds = [fd for fd in fds_of(target.pid) if "kvm" in fd]
    check(len(kinds) <= 5, f"the destination holds {kinds}")
    check(threads_of(target.pid) <= fresh[0] + 1, f"the destination has {threads_of(target.pid)} threads")
    check(not [fd for fd in fds_of(target.pid) if "io_uring" in fd], "an io_uring is left")
    finish(target)


def test_events():
    _, control = run("memcheck")
    target, _, uri = receive()
    here = Control(control)
    migrate_well(control, uri)
    here.status()
    states = [e["data"]["status"] for e in here.events if e["event"] == "MIGRATION"]
    check(states == ["setup", "active", "device", "completed"], f"events {here.events}")
    passes = [e["data"]["pass"] for e in here.events if e["event"] == "MIGRATION_PASS"]
    check(passes == list(range(1, len(passes) + 1)) and len(passes) >= 2, f"passes {passes}")
    finish(target)


def test_bandwidth_limit():
    _, control = run("idle fill=48M")
    _, _, uri = receive()
    begin = time.monotonic()
    result = migrate_well(control, uri, "--max-bandwidth", "24M")
    rate = result["bytes_sent"] / (time.monotonic() - begin)
    check(rate < 24 * 1024 * 1024 * 1.05, f"{rate:.0f} bytes/s against a limit of 24 MiB/s")


def test_cancel():
    source, control = run("memcheck")
    target, _, uri = receive()
    here = Control(control)
    here.command("migrate-set-parameters", **{"max-bandwidth": 1 << 20})
    here.command("migrate", uri=uri)
    wait_until(lambda: here.command("query-migrate").get("ram", {}).get("transferred", 0) > 100000,
               "the migration to get going")
    here.command("migrate_cancel")
    wait_until(lambda: here.command("query-migrate")["status"] == "cancelled", "the cancellation")
    check(here.status() == "running", here.status())
    target.expect_exit(1)
    here.command("migrate-set-parameters", **{"max-bandwidth": 0})
    target, _, uri = receive()
    migrate_well(control, uri)
    finish(target)
    source.kill()


def test_cancel_at_once():
    """While the first migration of a process still tries the dirty log, and wherever the next ones are."""
    _, control = run("memcheck")
    target, _, uri = receive()
    here = Control(control)
    here.command("migrate-set-parameters", **{"max-bandwidth": 1 << 20})
    for _ in range(3):
        here.command("migrate", uri=uri)
        here.command("migrate_cancel")
        wait_until(lambda: here.command("query-migrate")["status"] not in ("setup", "active", "cancelling"),
                   "the cancellation")
        status = here.command("query-migrate")["status"]
        check(status == "cancelled" and here.status() == "running", f"{status}, {here.status()}")
        if not target.alive():
            target, _, uri = receive()


def test_guest_ends_meanwhile():
    source, control = run("memcheck")
    target, _, uri = receive()
    here = Control(control)
    here.command("migrate-set-parameters", **{"max-bandwidth": 1 << 20})
    migration = subprocess.Popen([BINARY, "migrate", "--control", control, "--max-bandwidth", "1M", uri],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: here.command("query-migrate").get("ram", {}).get("transferred", 0) > 100000,
               "the migration to get going")
    finish(source)
    check(migration.wait(30) == 1, "migrate does not fail when the guest ends")
    migration.communicate()
    target.expect_exit(1)


def test_source_ends_meanwhile():
    """Who is told that the guest goes on must be able to find it."""
    for order in (signal.SIGTERM, "quit"):
        source, control = run("memcheck")
        target, _, uri = receive()
        here = Control(control)
        migration = subprocess.Popen([BINARY, "migrate", "--control", control, "--max-bandwidth", "1M", uri],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: here.command("query-migrate").get("ram", {}).get("transferred", 0) > 100000,
                   "the migration to get going")
        if order == "quit":
            here.command("quit")
        else:
            source.popen.send_signal(order)
        _, err = migration.communicate(timeout=30)
        check(migration.returncode == 1 and b"ended with it" in err and b"goes on" not in err, f"{order}: {err}")
        target.expect_exit(1)


def test_a_guest_that_never_fits():
    """Given up at the timeout, in the middle of a round; then slowed, and switched over at the timeout all the same."""
    source, control = run("memcheck set=16M")
    target, _, uri = receive()
    thin = ("--downtime-limit", "1ns", "--max-bandwidth", "8M")
    code, result, err = migrate(control, uri, *thin, "--timeout", "1s")
    check(code == 1 and "timeout of 1.00 s" in err, f"exit {code}: {result} {err}")
    check(Control(control).status() == "running", "the guest does not run on")
    target.expect_exit(1)
    target, there, uri = receive()
    result = migrate_well(control, uri, *thin, "--throttle", "50", "--timeout", "1ms", "--on-timeout", "switch")
    check(result["rounds"][-1]["round"] >= 2 and result["throttle_percent"] == 0, f"{result}")
    check(b"throttle 50%" in source.err, f"no word of the throttle: {source.err}")
    check(Control(there).status() == "running", "the guest does not run there")
    finish(target)


def test_streams_refused():
    """Where there is but one way; and nothing happens to the guest."""
    _, control = run("idle")
    code, _, err = migrate(control, "exec:cat", "--streams", "2")
    check(code != 0 and "one stream" in err, f"exit {code}: {err}")
    target, _, uri = receive(f"unix:{path('streams.sock')}")
    result = migrate_well(control, uri, "--streams", "3", "--compress", "lz4", "--zero-copy", "off", "--zero-pages", "all")
    check(len(result["stream_bytes"]) == 3 and result["zero_copy"] == "off", f"{result}")
    finish(target)


if __name__ == "__main__":
    main(test_tcp, test_unix, test_ipv6, test_exec_and_stdio, test_exec_survives_the_terminal, test_exec_leaves_nothing_behind, test_fd, test_paused_arrives_paused,
         test_check_sends_no_page, test_check_says_what_would_refuse, test_nothing_is_left, test_events, test_bandwidth_limit,
         test_a_guest_that_never_fits, test_streams_refused, test_cancel, test_cancel_at_once,
         test_guest_ends_meanwhile,
         test_source_ends_meanwhile)
